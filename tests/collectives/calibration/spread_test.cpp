// SPDX-License-Identifier: Apache-2.0
// Which batches of calls were disturbed too much for their figures to serve later jobs.
#include <cohort/collectives/calibration/spread.h>

#include <gtest/gtest.h>

namespace cohort::spread_test {
namespace {

using std::chrono::microseconds;

TEST(Spread, is_that_of_the_median_so_that_one_batch_may_be_disturbed) {
  EXPECT_EQ(spread_of({microseconds(4), microseconds(4), microseconds(78)}), 1);
  EXPECT_EQ(spread_of({microseconds(8), microseconds(78), microseconds(4)}), 2);
}

TEST(Spread, of_batches_of_which_most_were_disturbed_is_more_than_what_is_kept) {
  EXPECT_GT(spread_of({microseconds(78), microseconds(4), microseconds(60)}), kMostKeptSpread);
  EXPECT_LE(spread_of({microseconds(6), microseconds(4), microseconds(60)}), kMostKeptSpread);
}

TEST(Spread, of_a_clock_that_stands_is_a_number) { EXPECT_EQ(spread_of({Duration{0}, Duration{0}}), 0); }

}  // namespace
}  // namespace cohort::spread_test
