// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/counts_digest.h>

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace cohort::counts_digest_test {
namespace {

CountsDigest digest_of(const std::vector<std::size_t>& counts) {
  CountsDigest digest;
  for (const std::size_t count : counts) digest.add(count);
  return CountsDigest::of_bits(digest.bits());
}

TEST(CountsDigest, names_the_one_count_that_differs) {
  for (const std::size_t places : {1U, 2U, 9U, 256U}) {
    const std::vector<std::size_t> counts(places, 1000);
    for (std::size_t place = 0; place < places; ++place) {
      for (const std::size_t other : {std::size_t{0}, std::size_t{999}, std::size_t{1} << 33}) {
        std::vector<std::size_t> changed = counts;
        changed[place] = other;
        EXPECT_EQ(digest_of(changed).differing_from(digest_of(counts), places), place) << other;
      }
    }
  }
}

TEST(CountsDigest, names_none_of_several) {
  const std::vector<std::size_t> counts = {4, 5, 6, 7};
  for (const std::vector<std::size_t>& other :
       {std::vector<std::size_t>{5, 4, 6, 7}, {4, 6, 4, 8}, {5, 3, 6, 8}, {8, 10, 12, 14}})
    EXPECT_FALSE(digest_of(other).differing_from(digest_of(counts), counts.size()));
}

TEST(CountsDigest, of_lists_that_are_nearly_alike_differ) {
  std::set<std::uint64_t> digests;
  std::size_t lists = 0;
  for (std::size_t a = 0; a < 20; ++a)
    for (std::size_t b = 0; b < 20; ++b)
      for (std::size_t c = 0; c < 20; ++c, ++lists) digests.insert(digest_of({a, b, c}).bits());
  EXPECT_EQ(digests.size(), lists);
}

}  // namespace
}  // namespace cohort::counts_digest_test
