// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/shared_buffer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

/// Memory of a communicator's own for what passes through it, kept for the next call: peers of this host map
/// it where the heap has room. Threads: the engine's.
class KeptBuffer {
 public:
  explicit KeptBuffer(const std::shared_ptr<SharedHeap>& heap) noexcept : heap_(heap) {}

  /// At least so many bytes, aligned for any type; what was in it is lost where it grows. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::byte* room_for(std::size_t bytes);

 private:
  const std::shared_ptr<SharedHeap> heap_;
  SharedBuffer<std::uint8_t> mapped_;
  std::vector<std::byte> private_;  ///< where the heap has no room
};

}  // namespace cohort
