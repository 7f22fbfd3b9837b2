// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/shared_buffer.h>

#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <cstdint>

namespace cohort::detail {

std::byte* allocate_shared(SharedHeap& heap, std::size_t count, std::size_t element_bytes) {
  if (count > PTRDIFF_MAX / element_bytes)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("allocate: {} elements of {} bytes are more than any memory has; did the count "
                            "fall below zero?",
                            count, element_bytes));
  return heap.allocate(count * element_bytes);
}
void release_shared(const SharedHeapOrNone& heap, std::byte* memory) noexcept {
  if (const std::shared_ptr<SharedHeap> living = heap.lock()) living->release(memory);
}
void adopt_shared(SharedHeap& heap, std::span<std::byte> memory) { heap.adopt(memory.data(), memory.size()); }
void restore_private(const SharedHeapOrNone& heap, std::byte* memory) noexcept {
  if (const std::shared_ptr<SharedHeap> living = heap.lock()) living->restore(memory);
}

}  // namespace cohort::detail
