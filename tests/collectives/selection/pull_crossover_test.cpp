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

TEST(PullCrossover, is_settled_by_measuring_and_by_being_set) {
  PullCrossover measured;
  EXPECT_FALSE(measured.is_settled());
  measured.take({{64 * 1024, 10, 20}});
  EXPECT_TRUE(measured.is_settled());
  PullCrossover forbidden;
  forbidden.set_from(PullCrossover::kNever);
  EXPECT_TRUE(forbidden.is_settled());
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

TEST(PullCrossover, what_is_combined_is_judged_by_itself) {
  const std::vector<PullTimes> gains = {{65536, 10, 5}, {262144, 40, 20}};
  const std::vector<PullTimes> losses = {{65536, 10, 9}, {262144, 40, 39}};
  PullCrossover crossover;
  EXPECT_EQ(crossover.combining_from_bytes(), PullCrossover::kNever);
  crossover.set_from(4096);  // told, by an option
  EXPECT_EQ(crossover.combining_from_bytes(), 4096U);
  crossover.take(gains);
  crossover.take_combining(gains, 1 << 20);
  EXPECT_EQ(crossover.combining_from_bytes(), 65536U);
  // Not where it lost, but once what was staged has left the cache.
  crossover.take_combining(losses, 1 << 20);
  EXPECT_EQ(crossover.from_bytes(), 65536U);
  EXPECT_EQ(crossover.combining_from_bytes(), 1U << 20);
  crossover.take_combining(losses, 64 << 10);
  EXPECT_EQ(crossover.combining_from_bytes(), 2 * PullCrossover::kSizes.back());
  crossover.take(losses);
  EXPECT_EQ(crossover.combining_from_bytes(), PullCrossover::kNever);
}

}  // namespace
}  // namespace cohort
