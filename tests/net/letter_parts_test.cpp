// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/letter_parts.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cohort {
namespace {

constexpr std::size_t kKiB = 1024;

/// Counts for each byte at the beginning of a part how often it was taken, and checks that parts lie one
/// after another.
std::size_t take_all(LetterParts& parts, std::vector<std::atomic<int>>& taken) {
  std::size_t bytes = 0;
  while (const std::optional<LetterParts::Part> part = parts.next()) {
    ++taken[part->at / (32 * kKiB)];
    bytes += part->bytes;
  }
  return bytes;
}

TEST(LetterParts, of_one_end_are_all_of_the_message_in_order) {
  for (const std::size_t bytes : {1 * kKiB, 64 * kKiB, 100 * kKiB + 1, 3000 * kKiB + 7, 64 * kKiB * kKiB}) {
    LetterParts parts(bytes);
    std::size_t at = 0;
    while (const std::optional<LetterParts::Part> part = parts.next()) {
      EXPECT_EQ(part->at, at);
      EXPECT_GT(part->bytes, 0U);
      at += part->bytes;
    }
    EXPECT_EQ(at, bytes);
    EXPECT_EQ(parts.taken(), parts.count());
  }
}

TEST(LetterParts, of_two_ends_are_taken_once_by_whichever) {
  constexpr std::size_t kBytes = 100'000 * kKiB + 3;
  LetterParts::Word word{0};
  LetterParts::begin(word, 7);
  LetterParts one(kBytes, word, 7);
  LetterParts other(kBytes, word, 7);
  std::vector<std::atomic<int>> taken(kBytes / (32 * kKiB) + 1);
  std::size_t of_other = 0;
  std::thread thread([&] { of_other = take_all(other, taken); });
  const std::size_t of_one = take_all(one, taken);
  thread.join();
  EXPECT_EQ(of_one + of_other, kBytes);
  EXPECT_EQ(one.taken() + other.taken(), one.count());
  for (const std::atomic<int>& times : taken) EXPECT_LE(times, 1);
}

TEST(LetterParts, of_another_message_or_past_the_end_are_none) {
  LetterParts::Word word{0};
  LetterParts::begin(word, 8);
  EXPECT_FALSE(LetterParts(1000 * kKiB, word, 7).next());
  word = (std::uint64_t{7} << 32) + 1'000'000;
  EXPECT_FALSE(LetterParts(1000 * kKiB, word, 7).next());
  EXPECT_EQ(word, (std::uint64_t{7} << 32) + 1'000'000) << "nothing is written beyond";
}

}  // namespace
}  // namespace cohort
