// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>

#include <atomic>
#include <cstdint>

/// The system calls that wake a sleeper in another process.
namespace cohort::wakeup {

/// A new eventfd. Throws ResourceLimit or SystemError.
[[nodiscard]] Descriptor make_event();
/// Ends one read of the eventfd. Never blocks.
void signal_event(int descriptor) noexcept;
/// Ends every futex wait on the word, in any process that maps it.
void wake_futex(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace cohort::wakeup
