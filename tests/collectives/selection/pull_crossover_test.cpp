// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>

#include <gtest/gtest.h>

namespace cohort {
namespace {

constexpr Operator kOp = operator_of<AllGather>;

TEST(SlotCrossover, slots_serve_up_to_the_last_size_before_they_lose) {
  SlotCrossover crossover;
  crossover.take({{kOp, 4096, 1.0, 2.0}, {kOp, 8192, 2.0, 2.0}, {kOp, 16384, 4.1, 4.0}, {kOp, 32768, 5, 6}});
  EXPECT_EQ(crossover.most_bytes(kOp), 8192U);
  EXPECT_EQ(crossover.measured().size(), 4U);
}

TEST(SlotCrossover, slots_that_always_lose_serve_only_what_is_smaller_than_was_measured) {
  SlotCrossover crossover;
  crossover.take({{kOp, 4096, 3.0, 2.0}, {kOp, 8192, 4.0, 3.0}});
  EXPECT_EQ(crossover.most_bytes(kOp), 2048U);
}

TEST(SlotCrossover, operators_are_judged_apart_and_unmeasured_ones_keep_what_was_given) {
  SlotCrossover crossover;
  crossover.take({{kOp, 4096, 1.0, 2.0}, {kOp, 32768, 1.0, 2.0}});
  crossover.take({});
  EXPECT_EQ(crossover.most_bytes(kOp), 32768U);
  EXPECT_EQ(crossover.most_bytes(operator_of<AllReduce>), SlotCrossover::kUnmeasuredBytes);
}

TEST(PullCrossover, pulling_begins_where_it_wins_clearly_for_good) {
  PullCrossover crossover;
  EXPECT_EQ(crossover.from_bytes(), PullCrossover::kNever);
  crossover.take({{65536, 10, 5}, {262144, 40, 20}});
  EXPECT_EQ(crossover.from_bytes(), 65536U);
  crossover.take({{65536, 10, 8}, {262144, 40, 20}});
  EXPECT_EQ(crossover.from_bytes(), 262144U);
  crossover.take({{65536, 10, 5}, {262144, 40, 39}});
  EXPECT_EQ(crossover.from_bytes(), PullCrossover::kNever);
}

}  // namespace
}  // namespace cohort
