// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cohort {

/// Recycled memory for coroutine frames: one pool per thread, size classes of 64 bytes up to 2 KiB, malloc
/// above.
///
/// Every block is 64-byte aligned, which also repairs over-aligned locals that g++ 12 misplaces (PR 104177).
/// A block may be freed by another thread than the one that asked for it: it then joins that thread's pool.
///
/// A pool keeps at most 256 KiB of each class, unless told otherwise, so that a thread which only frees does
/// not hoard. Sanitizer builds do not recycle, so that a use after free is seen.
class FramePool {
 public:
  struct Statistics {
    std::uint64_t requests = 0;     ///< frames handed out by this thread
    std::uint64_t from_system = 0;  ///< of these, how many were not recycled
    std::size_t largest_bytes = 0;  ///< the largest frame asked for
  };

  static void* allocate(std::size_t bytes);
  static void release(void* block, std::size_t bytes) noexcept;
  /// From now on the calling thread's pool keeps so many bytes of each class: where one thread has the frames
  /// of many ranks at once, again and again.
  static void keep_at_most(std::size_t bytes) noexcept;
  [[nodiscard]] static Statistics statistics() noexcept;
};

}  // namespace cohort
