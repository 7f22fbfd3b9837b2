// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/slot_crossover.h>

#include <gtest/gtest.h>

#include <vector>

namespace cohort::slot_crossover_test {
namespace {

constexpr Operator kOp = operator_of<AllGather>;
constexpr double kDirectUs = 10;
constexpr double kWin = 1;
constexpr double kLoss = 20;

/// What slots take for the first sizes, as many as are given.
std::size_t limit_after(const std::vector<double>& slots_us, double direct_us = kDirectUs) {
  std::vector<SlotTimes> measured;
  for (std::size_t i = 0; i < slots_us.size(); ++i)
    measured.push_back({kOp, SlotCrossover::kSizes[i], slots_us[i], direct_us});
  SlotCrossover crossover;
  crossover.take(measured);
  return crossover.most_bytes(kOp);
}

TEST(SlotCrossover, slots_serve_up_to_the_size_before_the_first_at_which_they_lose) {
  EXPECT_EQ(limit_after({kWin, kWin, kWin, kWin, kWin, kWin}), 256U << 10);
  EXPECT_EQ(limit_after({kWin, kWin, kLoss, kLoss}), 16U << 10);
  EXPECT_EQ(limit_after({kWin, kLoss, kLoss, kLoss}), 4U << 10);
  EXPECT_EQ(limit_after({kLoss, kLoss, kLoss, kLoss}), 2U << 10);
}

/// Of figures as they were once kept: a rank had lost its core while it measured 4 KiB.
TEST(SlotCrossover, a_time_above_that_of_a_larger_size_was_disturbed) {
  EXPECT_EQ(limit_after({78, 4, 5, 6, 6, 7}, 8), 256U << 10);
  EXPECT_EQ(limit_after({4, 78, 5, 5, 12}, 8), 64U << 10);
  SlotCrossover crossover;
  crossover.take({{kOp, 4096, 78, 12}, {kOp, 8192, 4, 90}, {kOp, 16384, 5, 13}});
  EXPECT_EQ(crossover.times_of(kOp, 4096)->slots_us, 4);
  EXPECT_EQ(crossover.times_of(kOp, 8192)->direct_us, 13);
}

/// Between mapped buffers, which are not measured, `direct` copies less.
TEST(SlotCrossover, large_messages_have_to_win_clearly) {
  EXPECT_EQ(limit_after({kWin, kWin, 9.5, 9.5}), 32U << 10);
  EXPECT_EQ(limit_after({kWin, kWin, 8.5, 8.5, 8.5, 9.5}), 128U << 10);
}

TEST(SlotCrossover, what_the_time_was_too_short_for_is_sent_in_slots_as_if_nothing_were_measured) {
  EXPECT_EQ(limit_after({}), SlotCrossover::kUnmeasuredBytes);
  EXPECT_EQ(limit_after({kWin}), SlotCrossover::kUnmeasuredBytes);
  EXPECT_EQ(limit_after({kWin, kWin, kWin}), 32U << 10);
  EXPECT_EQ(limit_after({kLoss}), 2048U);
}

constexpr Operator kOther = operator_of<Scatter>;

std::vector<SlotTimes> times_of(Operator op, const std::vector<double>& slots_us) {
  std::vector<SlotTimes> measured;
  for (std::size_t i = 0; i < slots_us.size(); ++i)
    measured.push_back({op, SlotCrossover::kSizes[i], slots_us[i], kDirectUs});
  return measured;
}

TEST(SlotCrossover, what_the_time_was_too_short_for_is_as_the_least_of_its_kind) {
  SlotCrossover crossover;
  crossover.take(times_of(kOp, {kWin, kWin, kWin, kWin, kWin, kWin}));
  EXPECT_EQ(crossover.most_bytes(kOther), 256U << 10);
  EXPECT_EQ(crossover.most_bytes(operator_of<GatherV>), 256U << 10);
  EXPECT_EQ(crossover.most_bytes(operator_of<AllReduce>), SlotCrossover::kUnmeasuredBytes) << "it combines";
  crossover.take(times_of(operator_of<Broadcast>, {kWin, kWin, kWin, kWin, kLoss}));
  EXPECT_EQ(crossover.most_bytes(kOther), 64U << 10);
  EXPECT_EQ(crossover.most_bytes(kOp), 256U << 10) << "it was measured";
}

TEST(SlotCrossover, what_won_as_far_as_it_was_measured_goes_on_as_its_kind_does) {
  SlotCrossover crossover;
  crossover.take(times_of(kOther, {kWin, kWin, kWin}));
  EXPECT_EQ(crossover.most_bytes(kOther), 32U << 10);
  EXPECT_EQ(crossover.most_bytes(operator_of<GatherV>), SlotCrossover::kUnmeasuredBytes) << "not to its end";
  crossover.take(times_of(kOp, {kWin, kWin, kWin, kWin, kWin, kWin}));
  EXPECT_EQ(crossover.most_bytes(kOther), 256U << 10);
  SlotCrossover small;
  small.take(times_of(kOther, {kWin, kWin, kWin}));
  small.take(times_of(kOp, {kLoss}));
  EXPECT_EQ(small.most_bytes(kOther), 32U << 10) << "it won there itself";
}

TEST(SlotCrossover, operators_with_counts_go_by_those_without) {
  SlotCrossover crossover;
  crossover.take(times_of(operator_of<Broadcast>, {kWin, kLoss}));
  crossover.take(times_of(operator_of<AllToAll>, {kWin, kWin, kLoss}));
  crossover.take(times_of(operator_of<ReduceScatter>, {kWin, kWin, kWin, kWin, kWin}));
  EXPECT_EQ(crossover.most_bytes(operator_of<AllToAllVc>), 16U << 10);
  EXPECT_EQ(crossover.most_bytes(operator_of<ReduceScatterV>), 128U << 10) << "what combines ends there";
  EXPECT_EQ(crossover.most_bytes(operator_of<AllGatherV>), 4U << 10) << "as its kind";
}

TEST(SlotCrossover, of_what_is_measured_again_the_least_counts) {
  SlotCrossover crossover;
  crossover.renew({{kOp, 4096, 900, 10}, {kOp, 16384, 950, 20}});
  EXPECT_EQ(crossover.most_bytes(kOp), 2048U) << "it was disturbed";
  crossover.renew({{kOp, 4096, 5, 700}, {kOp, 16384, 8, 800}, {kOp, 32768, 90, 60}});
  EXPECT_EQ(crossover.times_of(kOp, 4096)->slots_us, 5);
  EXPECT_EQ(crossover.times_of(kOp, 4096)->direct_us, 10);
  EXPECT_EQ(crossover.most_bytes(kOp), 16384U);
  EXPECT_EQ(crossover.measured().size(), 3U);
  crossover.renew({{kOp, 4096, 6, 12}});
  EXPECT_EQ(crossover.most_bytes(kOp), 16384U);
  crossover.renew({});
  EXPECT_EQ(crossover.measured().size(), 3U);
}

TEST(SlotCrossover, times_lie_between_measured_sizes_and_are_unknown_outside) {
  SlotCrossover crossover;
  crossover.take({{kOp, 4096, 2, 4}, {kOp, 8192, 4, 8}});
  EXPECT_EQ(crossover.times_of(kOp, 4096)->slots_us, 2);
  EXPECT_EQ(crossover.times_of(kOp, 6144)->slots_us, 3);
  EXPECT_EQ(crossover.times_of(kOp, 6144)->direct_us, 6);
  EXPECT_EQ(crossover.times_of(kOp, 8192)->direct_us, 8);
  EXPECT_FALSE(crossover.times_of(kOp, 4095));
  EXPECT_FALSE(crossover.times_of(kOp, 8193));
  EXPECT_FALSE(crossover.times_of(operator_of<Broadcast>, 4096));
}

}  // namespace
}  // namespace cohort::slot_crossover_test
