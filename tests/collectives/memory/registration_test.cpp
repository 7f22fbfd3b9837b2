// SPDX-License-Identifier: Apache-2.0
// Memory of the application's own, mapped by peers where it stands.
#include <cohort/cohort.h>
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace cohort::registration_test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kFloatsPerPage = kPage / sizeof(float);

/// Whole pages of the C library's heap.
class Pages {
 public:
  explicit Pages(std::size_t pages)
      : data_(static_cast<float*>(std::aligned_alloc(kPage, pages * kPage))),
        count_(pages * kFloatsPerPage) {}
  ~Pages() { std::free(data_); }
  [[nodiscard]] std::span<float> span() const { return {data_, count_}; }

 private:
  float* data_;
  std::size_t count_;
};

class AdoptedMemory : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 16 * kPage;

  [[nodiscard]] static std::byte* bytes_of(std::span<float> floats) {
    return reinterpret_cast<std::byte*>(floats.data());
  }
  void expect_refusal(std::byte* address, std::size_t bytes, const std::string& why) {
    try {
      heap_.adopt(address, bytes);
      ADD_FAILURE() << "adopted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
    EXPECT_FALSE(heap_.offset_of(address, 1));
  }

  SharedMemory memory_ = SharedMemory::create(kBytes);
  SharedHeap heap_{memory_, 0, kBytes, false};
  Pages pages_{4};
};

TEST_F(AdoptedMemory, keeps_its_contents_and_lies_in_the_segment) {
  std::iota(pages_.span().begin(), pages_.span().end(), 1.0F);
  const std::vector<float> before(pages_.span().begin(), pages_.span().end());
  heap_.adopt(bytes_of(pages_.span()), 4 * kPage);
  EXPECT_THAT(pages_.span(), testing::ElementsAreArray(before));
  const auto offset = heap_.offset_of(bytes_of(pages_.span()) + kPage, kPage);
  ASSERT_TRUE(offset);
  pages_.span()[kFloatsPerPage] = 77;
  EXPECT_EQ(*reinterpret_cast<float*>(memory_.data() + *offset), 77);
  heap_.restore(bytes_of(pages_.span()));
}

TEST_F(AdoptedMemory, is_private_again_afterwards_and_its_place_is_free) {
  for (int round = 0; round < 10; ++round) {  // 40 pages of 16
    heap_.adopt(bytes_of(pages_.span()), 4 * kPage);
    pages_.span()[5] = static_cast<float>(round);
    const auto offset = heap_.offset_of(bytes_of(pages_.span()), 4 * kPage);
    heap_.restore(bytes_of(pages_.span()));
    EXPECT_EQ(pages_.span()[5], static_cast<float>(round));
    pages_.span()[5] = -1;
    EXPECT_EQ(*reinterpret_cast<float*>(memory_.data() + *offset + 5 * sizeof(float)),
              static_cast<float>(round));
    EXPECT_FALSE(heap_.offset_of(bytes_of(pages_.span()), 1));
  }
}

TEST_F(AdoptedMemory, only_what_lies_inside_it_is_found) {
  heap_.adopt(bytes_of(pages_.span()), 2 * kPage);
  std::byte* const begin = bytes_of(pages_.span());
  EXPECT_TRUE(heap_.offset_of(begin, 2 * kPage));
  EXPECT_TRUE(heap_.offset_of(begin + 2 * kPage, 0));
  EXPECT_FALSE(heap_.offset_of(begin, 2 * kPage + 1));
  EXPECT_FALSE(heap_.offset_of(begin + 2 * kPage - 1, 2));
  EXPECT_FALSE(heap_.offset_of(begin - 1, 1));
  EXPECT_FALSE(heap_.offset_of(begin + kPage, ~std::size_t{0}));
  heap_.restore(begin);
}

TEST_F(AdoptedMemory, must_be_whole_pages_of_ordinary_memory) {
  std::byte* const begin = bytes_of(pages_.span());
  expect_refusal(begin + 64, kPage, "whole pages");
  expect_refusal(begin, kPage + 4, "whole pages");
  expect_refusal(begin, 0, "whole pages");
  heap_.adopt(begin, kPage);
  try {
    heap_.adopt(begin, kPage);
    ADD_FAILURE() << "adopted twice";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("not as private memory"));
  }
  heap_.restore(begin);
  void* const mapped = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const foreign = static_cast<std::byte*>(mapped);
  expect_refusal(foreign, kPage, "mapped r--p");
  ::munmap(mapped, 2 * kPage);
  expect_refusal(foreign, kPage, "nothing is mapped");
}

TEST_F(AdoptedMemory, that_does_not_fit_is_a_resource_limit) {
  const Pages large(17);
  try {
    heap_.adopt(bytes_of(large.span()), 17 * kPage);
    ADD_FAILURE() << "adopted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::ResourceLimit);
  }
}

/// Small (by reference), through one pass, and large vectors; one rank registers, or all do.
TEST(Registration, collectives_are_right_on_registered_buffers) {
  for (const Rank registering : {1U, 2U, 3U}) {
    CommunicatorOptions options;
    options.is_isolated = true;
    const auto body = [=](Communicator& comm) -> Task<> {
      for (const std::size_t pages : {1UL, 8UL, 300UL}) {
        const Pages memory(pages);
        Registration registration;
        if (comm.rank() < registering) registration = comm.register_buffer(memory.span());
        for (int round = 1; round <= 5; ++round) {
          std::fill(memory.span().begin(), memory.span().end(),
                    static_cast<float>(round) + static_cast<float>(comm.rank()));
          co_await comm.all_reduce(memory.span(), ReduceOp::sum);
          const float expected = 3.0F * static_cast<float>(round) + 3;
          EXPECT_TRUE(
              std::all_of(memory.span().begin(), memory.span().end(), [=](float x) { return x == expected; }))
              << "rank " << comm.rank();
        }
      }
    };
    test::run_ranks(3, body, std::move(options));
  }
}

TEST(Registration, works_where_nobody_maps_it) {
  CommunicatorOptions options;
  options.transport = "tcp";
  const auto body = [](Communicator& comm) -> Task<> {
    const Pages memory(2);
    const Registration registration = comm.register_buffer(memory.span());
    std::fill(memory.span().begin(), memory.span().end(), 1.0F);
    co_await comm.all_reduce(memory.span(), ReduceOp::sum);
    EXPECT_THAT(memory.span(), testing::Each(2.0F));
  };
  test::run_ranks(2, body, std::move(options));
}

}  // namespace
}  // namespace cohort::registration_test
