// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

namespace cohort::pull_crossover_test {
namespace {

constexpr Operator kOp = operator_of<AllGather>;
constexpr PullUse kAllUses[] = {PullUse::to_one, PullUse::rooted, PullUse::to_all, PullUse::broadcast,
                                PullUse::combined};
static_assert(std::size(kAllUses) == kPullUses);

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

TEST(PullCrossover, of_what_is_measured_again_the_least_counts) {
  PullCrossover crossover;
  crossover.renew(PullUse::to_one, {{65536, 10, 900}, {262144, 40, 950}});
  EXPECT_EQ(crossover.from_bytes(PullUse::to_one), PullCrossover::kNever) << "it was disturbed";
  crossover.renew(PullUse::to_one, {{16384, 5, 9}, {65536, 80, 5}, {262144, 90, 20}});
  EXPECT_EQ(crossover.from_bytes(PullUse::to_one), 65536U);
  EXPECT_EQ(crossover.measured(PullUse::to_one).size(), 3U);
  EXPECT_EQ(crossover.measured(PullUse::to_one)[1].staged_us, 10);
}

TEST(PullCrossover, is_settled_by_measuring_and_by_being_set) {
  PullCrossover measured;
  EXPECT_FALSE(measured.is_settled());
  measured.take(PullUse::to_one, {{64 * 1024, 10, 20}});
  EXPECT_TRUE(measured.is_settled());
  PullCrossover forbidden;
  forbidden.set_from(PullCrossover::kNever);
  EXPECT_TRUE(forbidden.is_settled());
}

TEST(PullCrossover, pulling_begins_where_it_wins_clearly_for_good) {
  PullCrossover crossover;
  EXPECT_EQ(crossover.from_bytes(PullUse::to_one), PullCrossover::kNever);
  for (const PullUse use : {PullUse::to_one, PullUse::rooted, PullUse::to_all, PullUse::broadcast}) {
    crossover.take(use, {{65536, 10, 5}, {262144, 40, 20}});
    EXPECT_EQ(crossover.from_bytes(use), 65536U);
    crossover.take(use, {{65536, 10, 9.5}, {262144, 40, 20}});
    EXPECT_EQ(crossover.from_bytes(use), 262144U);
    crossover.take(use, {{65536, 10, 5}, {262144, 40, 39}});
    EXPECT_EQ(crossover.from_bytes(use), PullCrossover::kNever);
  }
}

TEST(PullCrossover, what_wins_at_a_size_is_pulled_up_to_the_next_one_that_was_measured) {
  using Range = PullCrossover::Range;
  constexpr PullUse kUse = PullUse::rooted;
  PullCrossover crossover;
  EXPECT_FALSE(crossover.pulls(kUse, PullCrossover::kNever - 1));
  EXPECT_THAT(crossover.ranges(kUse), testing::IsEmpty());
  crossover.take(kUse, {{16384, 9, 10}, {65536, 30, 20}, {262144, 70, 71}, {1048576, 330, 150}});
  for (const std::size_t pulled : {65536UL, 262143UL, 1048576UL, 1UL << 30})
    EXPECT_TRUE(crossover.pulls(kUse, pulled)) << pulled;
  for (const std::size_t staged : {0UL, 16384UL, 65535UL, 262144UL, 1048575UL})
    EXPECT_FALSE(crossover.pulls(kUse, staged)) << staged;
  EXPECT_THAT(crossover.ranges(kUse),
              testing::ElementsAre(Range{65536, 262144}, Range{1048576, PullCrossover::kNever}));
  EXPECT_EQ(crossover.from_bytes(kUse), 1048576U);
  crossover.take(kUse, {{16384, 20, 10}, {65536, 30, 20}});
  EXPECT_THAT(crossover.ranges(kUse), testing::ElementsAre(Range{16384, PullCrossover::kNever}));
  crossover.set_from(4096);
  EXPECT_TRUE(crossover.pulls(kUse, 4096));
  EXPECT_FALSE(crossover.pulls(kUse, 4095));
  EXPECT_THAT(crossover.ranges(kUse), testing::ElementsAre(Range{4096, PullCrossover::kNever}));
  crossover.set_from(PullCrossover::kNever);
  EXPECT_FALSE(crossover.pulls(kUse, 1 << 30)) << "what was measured does not count any more";
}

TEST(PullCrossover, what_all_ranks_read_of_one_has_to_win_by_more) {
  PullCrossover crossover;
  for (const PullUse use : kAllUses) crossover.take(use, {{65536, 12, 10}});
  for (const PullUse use : {PullUse::to_one, PullUse::rooted}) EXPECT_EQ(crossover.from_bytes(use), 65536U);
  for (const PullUse use : {PullUse::to_all, PullUse::broadcast, PullUse::combined})
    EXPECT_EQ(crossover.from_bytes(use), PullCrossover::kNever);
}

TEST(PullCrossover, each_use_is_judged_by_itself) {
  PullCrossover crossover;
  crossover.set_from(4096);  // told, by an option
  for (const PullUse use : kAllUses) EXPECT_EQ(crossover.from_bytes(use), 4096U);
  crossover.take(PullUse::to_one, {{65536, 10, 5}});
  crossover.take(PullUse::to_all, {{65536, 10, 9}});
  EXPECT_EQ(crossover.from_bytes(PullUse::to_one), 65536U);
  EXPECT_EQ(crossover.from_bytes(PullUse::to_all), PullCrossover::kNever);
  for (const PullUse use : {PullUse::rooted, PullUse::broadcast, PullUse::combined})
    EXPECT_EQ(crossover.from_bytes(use), 4096U);
}

TEST(PullCrossover, what_is_combined_is_pulled_once_it_would_have_left_the_cache) {
  PullCrossover crossover;
  crossover.take(PullUse::combined, {{65536, 10, 9}, {262144, 40, 39}});
  EXPECT_EQ(crossover.from_bytes(PullUse::combined), PullCrossover::kNever);
  crossover.combine_beyond(4 << 20);
  EXPECT_EQ(crossover.from_bytes(PullUse::combined), 4U << 20);
  crossover.take(PullUse::combined, {{65536, 10, 9}, {262144, 40, 39}});
  crossover.combine_beyond(64 << 10);
  EXPECT_EQ(crossover.from_bytes(PullUse::combined), 2 * PullCrossover::kSizes.back());
  crossover.take(PullUse::combined, {{65536, 10, 5}, {262144, 40, 20}});
  crossover.combine_beyond(1 << 20);
  EXPECT_EQ(crossover.from_bytes(PullUse::combined), 65536U) << "it won where it was measured";
  crossover.take(PullUse::combined, {{65536, 10, 9}, {262144, 40, 41}});
  crossover.combine_beyond(1 << 20);
  EXPECT_EQ(crossover.from_bytes(PullUse::combined), PullCrossover::kNever) << "it still lost at the largest";
  crossover.take(PullUse::combined, {});
  crossover.combine_beyond(1 << 20);
  EXPECT_EQ(crossover.from_bytes(PullUse::combined), PullCrossover::kNever) << "nothing was measured";
}

TEST(PullCrossover, of_a_vector_that_all_combine_a_share_is_pulled_at_a_time) {
  EXPECT_EQ(pulled_shares_of(operator_of<AllReduce>, 4), 4U);
  EXPECT_EQ(pulled_shares_of(operator_of<Reduce>, 4), 4U);
  for (const Operator whole : {operator_of<ReduceScatter>, operator_of<AllGather>, operator_of<AllToAll>,
                               operator_of<Broadcast>, operator_of<Scatter>, operator_of<Gather>})
    EXPECT_EQ(pulled_shares_of(whole, 4), 1U) << to_string(whole);
}

TEST(PullCrossover, an_operators_use_follows_from_its_result) {
  const auto uses = [](auto... op) { return std::vector{pull_use_of(op, 3)...}; };
  EXPECT_THAT(uses(operator_of<AllToAll>, operator_of<AllToAllVc>), testing::Each(PullUse::to_one));
  EXPECT_THAT(uses(operator_of<Gather>, operator_of<GatherV>, operator_of<Scatter>, operator_of<ScatterV>),
              testing::Each(PullUse::rooted));
  EXPECT_THAT(uses(operator_of<AllGather>, operator_of<AllGatherV>), testing::Each(PullUse::to_all));
  EXPECT_EQ(pull_use_of(operator_of<Broadcast>, 3), PullUse::broadcast);
  EXPECT_EQ(pull_use_of(operator_of<Broadcast>, 2), PullUse::broadcast);
  EXPECT_EQ(pull_use_of(operator_of<AllGather>, 2), PullUse::to_one);
  EXPECT_THAT(uses(operator_of<AllReduce>, operator_of<Reduce>, operator_of<ReduceScatter>),
              testing::Each(PullUse::combined));
}

/// By how many engines share a core, what was measured, and what the options say.
TEST(PullCrossover, messages_are_pulled_where_their_ends_share_a_core_and_come_in_pieces_where_each_has_one) {
  constexpr std::size_t kNever = PullCrossover::kNever;
  const PullCrossover unmeasured;
  PullCrossover fast_from_64k;
  fast_from_64k.take(PullUse::to_one, {{16 * 1024, 10, 20}, {64 * 1024, 30, 20}});
  PullCrossover slow;
  slow.take(PullUse::to_one, {{16 * 1024, 10, 20}, {64 * 1024, 30, 40}});
  for (const double alone : {0.5, 1.0}) {
    EXPECT_EQ(messages_pull_from(0, alone, unmeasured), kNever);
    EXPECT_EQ(messages_pull_from(0, alone, fast_from_64k), 64U * 1024);
    EXPECT_EQ(messages_pull_from(0, alone, slow), kNever);
  }
  for (const double shared : {1.5, 2.0, 8.0}) {
    EXPECT_EQ(messages_pull_from(0, shared, unmeasured), 0U);
    EXPECT_EQ(messages_pull_from(0, shared, fast_from_64k), 64U * 1024);
    EXPECT_EQ(messages_pull_from(0, shared, slow), kNever);
  }
  for (const double any : {1.0, 2.0}) {
    EXPECT_EQ(messages_pull_from(4096, any, slow), 4096U);
    EXPECT_EQ(messages_pull_from(kNever, any, fast_from_64k), kNever) << "forbidden, as by COHORT_CMA=0";
  }
}

}  // namespace
}  // namespace cohort::pull_crossover_test
