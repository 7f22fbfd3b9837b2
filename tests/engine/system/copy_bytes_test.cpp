// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/tuning.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cohort::copy_bytes_test {
namespace {

constexpr std::byte kUntouched{0xff};

/// What a copy of `bytes` leaves of a row of 0, 1, 2, ... in memory with as much on both sides.
template <class Copy>
void expect_exactly(std::size_t bytes, Copy copy) {
  std::vector<unsigned char> numbers(bytes);
  std::iota(numbers.begin(), numbers.end(), static_cast<unsigned char>(1));
  std::vector<std::byte> from(bytes);
  std::ranges::transform(numbers, from.begin(), [](unsigned char number) { return std::byte{number}; });
  constexpr std::size_t kMargin = 40;
  std::vector<std::byte> to(bytes + 2 * kMargin, kUntouched);
  copy(to.data() + kMargin, from.data(), bytes);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + kMargin)) << bytes;
  const auto is_untouched = [](std::byte at) { return at == kUntouched; };
  EXPECT_TRUE(std::all_of(to.begin(), to.begin() + kMargin, is_untouched)) << bytes;
  EXPECT_TRUE(std::all_of(to.end() - kMargin, to.end(), is_untouched)) << bytes;
}

TEST(CopyBytes, copies_as_many_as_it_is_told) {
  for (std::size_t bytes = 0; bytes < 5000; bytes += 1 + bytes / 7) expect_exactly(bytes, copy_bytes);
}

TEST(CopyBytes, copies_what_is_large_either_way) {
  for (const std::size_t bytes : {tuning::copying::kStringFrom, std::size_t{100'003}}) {
    expect_exactly(bytes, copy_bytes);
    expect_exactly(bytes, detail::copy_by_string);
    expect_exactly(bytes, detail::copy_by_vectors);
  }
}

TEST(CopyBytes, copies_each_small_number_of_bytes) {
  for (std::size_t bytes = 0; bytes <= 32; ++bytes) expect_exactly(bytes, copy_few_bytes);
}

TEST(CopyBytes, needs_no_memory_for_no_bytes) {
  copy_bytes(nullptr, nullptr, 0);
  copy_few_bytes(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace cohort::copy_bytes_test
