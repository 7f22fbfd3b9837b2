// SPDX-License-Identifier: Apache-2.0
// Memory that cannot be put into the heap stays its owner's, whatever fails on the way.
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/tests/support/no_memory.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace cohort::adopting_without_memory_test {
namespace {

using cohort::test::NoMemory;

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

/// Whether it went well with memory for so many requests.
bool adopts(SharedHeap& heap, std::byte* address, std::size_t bytes, std::size_t requests) {
  const NoMemory no_memory(0, requests);
  try {
    heap.adopt(address, bytes);
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const Error&) {
    return false;
  }
  return true;
}

TEST(AdoptingWithoutMemory, leaves_no_place_of_the_heap_in_two_hands) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::size_t bytes = 4 * memory_map::page_bytes();
  bool is_adopted = false;
  for (std::size_t requests = 0; !is_adopted; ++requests) {
    ASSERT_LT(requests, 1000U);
    SharedMemory memory = SharedMemory::create(4 * kMiB);
    SharedHeap heap(memory, 0, 4 * kMiB, false);
    const std::unique_ptr<std::byte, Free> own(
        static_cast<std::byte*>(std::aligned_alloc(memory_map::page_bytes(), bytes)));
    std::memset(own.get(), 7, bytes);
    is_adopted = adopts(heap, own.get(), bytes, requests);
    std::byte* const other = heap.allocate(bytes);
    std::memset(other, 9, bytes);
    EXPECT_EQ(std::count(own.get(), own.get() + bytes, std::byte{7}), static_cast<std::ptrdiff_t>(bytes))
        << "with memory for " << requests << " requests";
    EXPECT_EQ(heap.offset_of(own.get(), bytes).has_value(), is_adopted);
    if (is_adopted) heap.restore(own.get());
  }
}

}  // namespace
}  // namespace cohort::adopting_without_memory_test
