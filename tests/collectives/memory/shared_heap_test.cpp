// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/shared_heap.h>

#include <cohort/engine/error.h>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace cohort::shared_heap_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kHeapAt = 4096;  // not where a huge page begins

class SharedHeapTest : public testing::TestWithParam<bool> {
 protected:
  SharedMemory memory_ = SharedMemory::create(kHeapAt + 16 * kMiB);
  SharedHeap heap_ = SharedHeap(memory_, kHeapAt, 16 * kMiB, GetParam());
};

bool is_aligned(const std::byte* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

TEST_P(SharedHeapTest, buffers_are_zero_and_aligned_by_their_size) {
  std::byte* small = heap_.allocate(1);
  std::byte* large = heap_.allocate(5 * kMiB);
  EXPECT_TRUE(is_aligned(small, 4096));
  EXPECT_TRUE(is_aligned(large, SharedMemory::kHugePageBytes));
  EXPECT_TRUE(std::all_of(large, large + 5 * kMiB, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_P(SharedHeapTest, buffers_do_not_overlap) {
  std::vector<std::pair<std::byte*, std::size_t>> buffers;
  for (const std::size_t bytes : {std::size_t{1}, 2 * kMiB, std::size_t{5000}, 3 * kMiB, 4 * kMiB}) {
    buffers.emplace_back(heap_.allocate(bytes), bytes);
    std::memset(buffers.back().first, static_cast<int>(buffers.size()), bytes);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto [data, bytes] = buffers[i];
    EXPECT_EQ(std::count(data, data + bytes, static_cast<std::byte>(i + 1)), bytes) << "buffer " << i;
  }
}

TEST_P(SharedHeapTest, another_mapping_sees_the_contents) {
  std::byte* data = heap_.allocate(4 * kMiB);
  std::memset(data, 7, 4 * kMiB);
  const SharedMemory other = SharedMemory::map(Descriptor(::dup(memory_.descriptor())), memory_.size_bytes());
  const std::byte* seen = other.data() + (data - memory_.data());
  EXPECT_EQ(std::memcmp(seen, data, 4 * kMiB), 0);
}

TEST_P(SharedHeapTest, released_memory_is_used_again_as_one_piece) {
  std::byte* first = heap_.allocate(4 * kMiB);
  std::byte* second = heap_.allocate(4 * kMiB);
  std::byte* third = heap_.allocate(4 * kMiB);
  heap_.release(second);
  heap_.release(first);
  heap_.release(third);
  EXPECT_EQ(heap_.allocate(12 * kMiB), first);
}

TEST_P(SharedHeapTest, what_a_reservation_is_shortened_by_is_free) {
  const std::size_t first = heap_.reserve(12 * kMiB);
  heap_.shorten(first, 5 * kMiB);
  const std::size_t second = heap_.reserve(7 * kMiB);
  EXPECT_EQ(second, first + 5 * kMiB);
  heap_.shorten(second, 8 * kMiB);  // it is no longer than that
  heap_.give_back(first);
  heap_.give_back(second);
  EXPECT_EQ(heap_.reserve(16 * kMiB), kHeapAt);
}

TEST_P(SharedHeapTest, exhaustion_names_size_and_remedy) {
  (void)heap_.allocate(12 * kMiB);
  try {
    (void)heap_.allocate(5 * kMiB);
    FAIL() << "there was no room for it";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::ResourceLimit);
    EXPECT_NE(std::string_view(error.what()).find("5242880"), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("COHORT_HEAPSIZE"), std::string_view::npos);
  }
  EXPECT_THROW((void)heap_.allocate(~std::size_t{0}), Error);
}

INSTANTIATE_TEST_SUITE_P(, SharedHeapTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "huge_pages" : "small_pages"; });

}  // namespace
}  // namespace cohort::shared_heap_test
