// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/overlap.h>

#include <gtest/gtest.h>

namespace cohort::bench::overlap_test {
namespace {

TEST(Overlap, hidden_is_the_part_of_the_shorter_one_that_costs_nothing) {
  const auto hidden = [](double both_us) {
    return Overlap{.bytes = 8, .comm_us = 1000, .compute_us = 1200, .both_us = both_us}.hidden();
  };
  EXPECT_EQ(hidden(2200), 0);
  EXPECT_EQ(hidden(1700), 0.5);
  EXPECT_EQ(hidden(1200), 1);
  EXPECT_EQ(hidden(1000), 1);
  EXPECT_EQ(hidden(9000), 0);
}

TEST(Overlap, csv_is_what_the_suite_reads) {
  Options options;
  options.format = Format::csv;
  options.overlap = Computing::device;
  const Overlap overlap{.bytes = 1024, .comm_us = 1, .compute_us = 2, .both_us = 2.5};
  EXPECT_EQ(overlap_row(options, "shm-shared", overlap),
            "overlap,cohort,shm-shared,engine and pool,device,2,1024,1.000,2.000,2.500\n");
}

}  // namespace
}  // namespace cohort::bench::overlap_test
