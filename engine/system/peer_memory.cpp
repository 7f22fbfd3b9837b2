// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/peer_memory.h>

#include <cohort/engine/system/memory_map.h>

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace cohort {
namespace {

using Call = decltype(::process_vm_readv);

int copy_whole(Call& call, std::uint32_t pid, std::byte* here, std::uintptr_t there,
               std::size_t bytes) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const ::iovec local{here + done, bytes - done};
    const ::iovec remote{reinterpret_cast<void*>(there + done), bytes - done};
    const ::ssize_t copied = call(static_cast<::pid_t>(pid), &local, 1, &remote, 1, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return copied < 0 ? errno : EFAULT;
    done += static_cast<std::size_t>(copied);
  }
  return 0;
}

}  // namespace

int read_peer_memory(std::uint32_t pid, std::byte* to, std::uintptr_t address, std::size_t bytes) noexcept {
  return copy_whole(::process_vm_readv, pid, to, address, bytes);
}

int write_peer_memory(std::uint32_t pid, std::byte* from, std::uintptr_t address,
                      std::size_t bytes) noexcept {
  return copy_whole(::process_vm_writev, pid, from, address, bytes);
}

bool is_own_memory(std::byte* at, std::size_t bytes, bool is_written) noexcept {
  const auto own = static_cast<std::uint32_t>(::getpid());
  const std::size_t page = memory_map::page_bytes();
  for (std::size_t done = 0; done < bytes;) {
    std::byte* const place = at + done;
    std::byte kept{};
    if (read_peer_memory(own, &kept, reinterpret_cast<std::uintptr_t>(place), 1) != 0) return false;
    if (is_written && write_peer_memory(own, &kept, reinterpret_cast<std::uintptr_t>(place), 1) != 0)
      return false;
    done += page - reinterpret_cast<std::uintptr_t>(place) % page;
  }
  return true;
}

}  // namespace cohort
