// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cohort {

inline constexpr std::size_t kNoLimit = ~std::size_t{0};

/// How many bytes this process may lock (RLIMIT_MEMLOCK), as far as it can tell; kNoLimit where it may lock
/// any amount (CAP_IPC_LOCK). Threads: any.
[[nodiscard]] std::size_t locked_memory_limit() noexcept;

}  // namespace cohort
