// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/peer_memory.h>

#include <sys/uio.h>

#include <cerrno>

namespace cohort {

int read_peer_memory(std::uint32_t pid, std::byte* to, std::uintptr_t address, std::size_t bytes) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const ::iovec local{to + done, bytes - done};
    const ::iovec remote{reinterpret_cast<void*>(address + done), bytes - done};
    const ::ssize_t got = ::process_vm_readv(static_cast<::pid_t>(pid), &local, 1, &remote, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EFAULT;
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace cohort
