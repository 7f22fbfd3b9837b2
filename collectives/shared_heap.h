// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/shared_memory.h>

#include <cstddef>
#include <map>

namespace cohort {

/// Memory for user buffers that peers on this host map already: collectives on it need no staging.
///
/// First fit over one range of a shared segment; freed memory is kept and used again, because fresh shared
/// pages cost more than the copies they save. Threads: the engine's.
class SharedHeap {
 public:
  SharedHeap() = default;
  /// Over [offset, offset + bytes) of a segment, which outlives this.
  SharedHeap(SharedMemory& memory, std::size_t offset, std::size_t bytes, bool uses_huge_pages);

  [[nodiscard]] bool is_available() const noexcept { return memory_ != nullptr; }
  /// Page-aligned, from 2 MiB up aligned to huge pages and on such where the kernel has them; committed.
  /// Throws ResourceLimit naming what was asked for and what is left.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  void release(std::byte* address) noexcept;

 private:
  void commit_until(std::size_t end);

  SharedMemory* memory_ = nullptr;
  bool uses_huge_pages_ = false;
  std::map<std::size_t, std::size_t> free_;  ///< offset, bytes
  std::map<std::size_t, std::size_t> used_;
  std::size_t committed_until_ = 0;
};

}  // namespace cohort
