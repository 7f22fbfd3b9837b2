// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// How many descriptors this process may have open (RLIMIT_NOFILE). Threads: any.
namespace cohort::descriptor_limit {

/// The soft limit, which holds now.
[[nodiscard]] std::size_t current() noexcept;
/// Descriptors that are open.
[[nodiscard]] std::size_t count_open();
/// Raises the soft limit to `wanted` if it is lower, as far as the hard one allows; never lowers it. Children
/// inherit it. Returns what holds then.
std::size_t raise_to(std::size_t wanted) noexcept;

}  // namespace cohort::descriptor_limit
