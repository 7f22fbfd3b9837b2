// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/child_view.h>
#include <cohort/engine/system/shared_memory.h>
#include <cohort/net/peer_transports.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace cohort {

/// Memory for user buffers that peers on this host map already: collectives on it need no staging.
///
/// First fit over one range of a shared segment; freed memory is kept and used again, because fresh shared
/// pages cost more than the copies they save. Threads: the engine's.
class SharedHeap {
 public:
  SharedHeap() = default;
  /// Over [offset, offset + bytes) of a segment, which outlives this. `users`, who outlive this too, are told
  /// of the buffers that come and go.
  SharedHeap(SharedMemory& memory, std::size_t offset, std::size_t bytes, bool uses_huge_pages,
             PeerTransports* users = nullptr);

  /// Page-aligned, from 2 MiB up aligned to huge pages and on such where the kernel has them; committed.
  /// Throws ResourceLimit naming what was asked for and how large the heap is.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  void release(std::byte* address) noexcept;

  /// Address space at the other end of the range, whole pages, zero; no page is committed. Its offset in the
  /// segment. Throws ResourceLimit.
  [[nodiscard]] std::size_t reserve(std::size_t bytes);
  /// Gives back what of a reservation is behind so many bytes, of which no page was ever used.
  void shorten(std::size_t offset, std::size_t bytes);
  /// Gives the pages of a reservation back as well.
  void give_back(std::size_t offset) noexcept;

  /// Puts ordinary memory of the caller's, whole pages, into the heap where it stands: same address, same
  /// contents. Throws InvalidArgument where that cannot be, ResourceLimit as allocate() does.
  void adopt(std::byte* address, std::size_t bytes);
  /// Gives adopted memory back: private again, same address, same contents.
  void restore(std::byte* address) noexcept;
  /// Where in the segment that memory lies, allocated or adopted; nothing if peers do not map it.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const std::byte* address,
                                                       std::size_t bytes) const noexcept;

 private:
  /// Memory of the caller's that is mapped from here.
  struct Adopted {
    std::size_t bytes = 0;
    std::byte* place = nullptr;       ///< of this heap
    std::optional<ChildView> view{};  ///< a child of fork() writes its own
  };

  using Range = std::map<std::size_t, std::size_t>::iterator;

  [[noreturn]] void refuse(std::size_t bytes) const;
  /// Takes [offset, offset + bytes) out of a free range.
  void take(Range from, std::size_t offset, std::size_t bytes);
  void free(Range used) noexcept;
  void tell_of(std::byte* address, std::size_t bytes) {
    if (users_ != nullptr) users_->register_memory({address, bytes});
  }
  void tell_of_end(const std::byte* address) noexcept {
    if (users_ != nullptr) users_->forget_memory(address);
  }
  void commit_until(std::size_t end);

  SharedMemory* memory_ = nullptr;
  PeerTransports* users_ = nullptr;
  std::size_t size_bytes_ = 0;
  bool uses_huge_pages_ = false;
  std::map<std::size_t, std::size_t> free_;  ///< offset, bytes
  std::map<std::size_t, std::size_t> used_;
  std::map<const std::byte*, Adopted> adopted_;
  std::size_t committed_until_ = 0;
};

}  // namespace cohort
