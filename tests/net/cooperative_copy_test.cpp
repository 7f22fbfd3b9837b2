// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/cooperative_copy.h>

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

namespace cohort::cooperative_copy_test {
namespace {

constexpr std::size_t kKiB = 1024;

/// Counts how often each part was taken.
std::size_t take_all(CooperativeCopy& parts, std::vector<std::atomic<int>>& taken) {
  std::size_t bytes = 0;
  while (const std::optional<CooperativeCopy::Part> part = parts.next()) {
    ++taken[part->at / CooperativeCopy::kMostBytes];
    bytes += part->bytes;
  }
  return bytes;
}

TEST(CooperativeCopy, of_one_end_are_all_of_the_message_in_order) {
  for (const std::size_t bytes : {1 * kKiB, 64 * kKiB, 100 * kKiB + 1, 3000 * kKiB + 7, 64 * kKiB * kKiB}) {
    CooperativeCopy parts(bytes);
    std::size_t at = 0;
    while (const std::optional<CooperativeCopy::Part> part = parts.next()) {
      EXPECT_EQ(part->at, at);
      EXPECT_GT(part->bytes, 0U);
      at += part->bytes;
    }
    EXPECT_EQ(at, bytes);
    EXPECT_EQ(parts.taken(), parts.count());
  }
}

TEST(CooperativeCopy, of_two_ends_are_taken_once_by_whichever) {
  constexpr std::size_t kBytes = 1000 * CooperativeCopy::kMostBytes + 3;
  for (std::uint32_t number = 0; number < 200; ++number) {
    CooperativeCopy::Word word{0};
    CooperativeCopy::begin(word, number);
    CooperativeCopy one(kBytes, word, number);
    CooperativeCopy other(kBytes, word, number);
    std::vector<std::atomic<int>> taken(one.count());
    std::size_t of_other = 0;
    std::barrier start(2);
    std::thread thread([&] {
      start.arrive_and_wait();
      of_other = take_all(other, taken);
    });
    start.arrive_and_wait();
    const std::size_t of_one = take_all(one, taken);
    thread.join();
    EXPECT_EQ(of_one + of_other, kBytes);
    EXPECT_EQ(one.taken() + other.taken(), one.count());
    for (const std::atomic<int>& times : taken) EXPECT_EQ(times, 1);
  }
}

TEST(CooperativeCopy, of_two_ends_by_turns_are_each_others_next) {
  constexpr std::size_t kBytes = 4 * CooperativeCopy::kMostBytes * 8;
  CooperativeCopy::Word word{0};
  CooperativeCopy::begin(word, 3);
  CooperativeCopy one(kBytes, word, 3);
  CooperativeCopy other(kBytes, word, 3);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < one.count(); ++i, at += CooperativeCopy::kMostBytes) {
    CooperativeCopy& next = i % 3 == 0 ? one : other;
    const std::optional<CooperativeCopy::Part> part = next.next();
    ASSERT_TRUE(part);
    EXPECT_EQ(part->at, at);
  }
  EXPECT_FALSE(one.next());
  EXPECT_FALSE(other.next());
}

TEST(CooperativeCopy, are_none_for_either_end_once_they_are_ended) {
  CooperativeCopy::Word word{0};
  CooperativeCopy::begin(word, 5);
  CooperativeCopy parts(1000 * kKiB, word, 5);
  EXPECT_TRUE(parts.next());
  CooperativeCopy::end(word, 5);
  EXPECT_FALSE(parts.next());
  CooperativeCopy::begin(word, 6);
  EXPECT_FALSE(parts.next());
}

TEST(CooperativeCopy, of_another_message_or_past_the_end_are_none) {
  CooperativeCopy::Word word{0};
  CooperativeCopy::begin(word, 8);
  EXPECT_FALSE(CooperativeCopy(1000 * kKiB, word, 7).next());
  word = (std::uint64_t{7} << 32) + 1'000'000;
  EXPECT_FALSE(CooperativeCopy(1000 * kKiB, word, 7).next());
  EXPECT_EQ(word, (std::uint64_t{7} << 32) + 1'000'000) << "nothing is written beyond";
}

}  // namespace
}  // namespace cohort::cooperative_copy_test
