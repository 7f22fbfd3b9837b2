// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cohort {

// Memory of another process of this user that is not mapped here, read and written by the kernel in one copy
// (cross memory attach, process_vm_readv(2)). Works where the kernel would allow attaching a debugger: not
// under yama's ptrace_scope 1 and above, nor in most containers without CAP_SYS_PTRACE.
//
// Both copy between `address` of process `pid` and this one's memory. They return 0, or the errno why not all
// of it was copied.

[[nodiscard]] int read_peer_memory(std::uint32_t pid, std::byte* to, std::uintptr_t address,
                                   std::size_t bytes) noexcept;
/// `from` is only read, and not const since the kernel's interface is not.
[[nodiscard]] int write_peer_memory(std::uint32_t pid, std::byte* from, std::uintptr_t address,
                                    std::size_t bytes) noexcept;

/// Whether this process itself may read, or write, all of these bytes: after an EFAULT, to tell whose memory
/// it was. Nothing is changed.
[[nodiscard]] bool is_own_memory(std::byte* at, std::size_t bytes, bool is_written) noexcept;

}  // namespace cohort
