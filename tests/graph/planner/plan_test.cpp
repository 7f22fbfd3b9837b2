// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/plan.h>

#include <cohort/engine/error.h>
#include <cohort/graph/planner/explain.h>
#include <cohort/graph/planner/planner.h>
#include <cohort/graph/planner/rules.h>
#include <cohort/tests/graph/planner/random_items.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace cohort::graph::plan_of_buckets_test {
namespace {

using test::Random;
using test::whole;
using ::testing::HasSubstr;

std::vector<std::size_t> sizes_of(const Plan& plan) {
  std::vector<std::size_t> sizes;
  for (const Bucket& bucket : plan.buckets) sizes.push_back(bucket.size());
  return sizes;
}

TEST(Plan, a_bucket_ends_behind_its_data_and_the_bucket_before_it) {
  Plan plan{.rule = "by hand", .items = {{"a", 0, 100}, {"b", 10, 100}, {"c", 500, 100}}};
  plan.buckets = {{.first = 0, .end = 1}, {.first = 1, .end = 2}, {.first = 2, .end = 3}};
  evaluate(plan, Cost::of(LinearCost{20, 5, 0.1}));
  EXPECT_DOUBLE_EQ(plan.buckets[0].end_us, 30);
  EXPECT_DOUBLE_EQ(plan.buckets[1].end_us, 45);  // queued behind the first
  EXPECT_DOUBLE_EQ(plan.buckets[2].end_us, 530);
  EXPECT_DOUBLE_EQ(plan.exposed_us(), 30);
}

TEST(Plan, buckets_that_leave_out_an_item_are_refused) {
  Plan plan{.rule = "by hand", .items = {{"a", 0, 1}, {"b", 0, 1}}};
  plan.buckets = {{.first = 0, .end = 1}};
  EXPECT_THROW(evaluate(plan, Cost::of(LinearCost{})), Error);
}

TEST(Plan, its_hash_is_of_what_travels_together_not_of_times) {
  const std::vector<Item> items = {{"a", 0, 10}, {"b", 1, 10}};
  const Cost cost = Cost::of(LinearCost{1, 1, 1});
  std::vector<Item> later = items;
  later[1].ready_us = 7;
  EXPECT_EQ(rule_of_one(items, cost).hash(), rule_of_one(later, cost).hash());
  EXPECT_NE(rule_of_one(items, cost).hash(), rule_of_each(items, cost).hash());
  later[1].name = "c";
  EXPECT_NE(rule_of_one(items, cost).hash(), rule_of_one(later, cost).hash());
}

TEST(Plan, a_huge_gradient_is_cut_into_equal_pieces_of_whole_elements) {
  const std::vector<Item> pieces = split(std::vector<Item>{{"a", 3, 1000}, {"b", 4, 40}}, 300, 4);
  ASSERT_EQ(pieces.size(), 5U);
  std::uint64_t offset = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(pieces[i].name, "a");
    EXPECT_EQ(pieces[i].ready_us, 3);
    EXPECT_EQ(pieces[i].offset, offset);
    EXPECT_EQ(pieces[i].bytes % 4, 0U);
    EXPECT_LE(pieces[i].bytes, 300U);
    offset += pieces[i].bytes;
  }
  EXPECT_EQ(offset, 1000U);
  EXPECT_EQ(pieces[4].bytes, 40U);
  EXPECT_EQ(split(pieces, 0).size(), 5U);
}

TEST(Rules, by_size_closes_a_bucket_that_has_enough) {
  const std::uint64_t mebibyte = std::uint64_t{1} << 20;
  std::vector<Item> items;
  for (int i = 0; i < 7; ++i) items.push_back({.name = "g", .ready_us = 1.0 * i, .bytes = mebibyte});
  const Plan plan = rule_of_size(items, Cost::of(LinearCost{}), 3 * mebibyte);
  EXPECT_EQ(sizes_of(plan), (std::vector<std::size_t>{1, 3, 3}));
}

TEST(Rules, by_cycle_waits_for_the_next_tick_and_for_the_one_before) {
  const std::vector<Item> items = {{"a", 500, 100}, {"b", 900, 100}, {"c", 1100, 100}, {"d", 2100, 100}};
  const Plan plan = rule_of_cycle(items, Cost::of(LinearCost{10, 10, 0}), 1000, 1000);
  ASSERT_EQ(sizes_of(plan), (std::vector<std::size_t>{2, 1, 1}));
  EXPECT_EQ(plan.buckets[0].ready_us, 1000);
  EXPECT_EQ(plan.finish_us, 3010);
}

TEST(Rules, merging_takes_what_is_ready_before_it_could_begin) {
  const std::vector<Item> items = {{"a", 0, 100}, {"b", 5, 100}, {"c", 100, 100}, {"d", 300, 100}};
  const Plan plan = rule_of_merging(items, {.idle_us = 10, .queued_us = 10, .byte_us = 1});
  EXPECT_EQ(sizes_of(plan), (std::vector<std::size_t>{2, 1, 1}));
}

TEST(Rules, none_is_better_than_the_optimum) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    std::vector<Item> items = test::random_items(random, whole(random, 1, 60));
    for (Item& item : items) item.bytes *= 1000;
    LinearCost line = test::random_line(random);
    line.byte_us /= 1000;
    const Cost cost = Cost::of(line);
    const double best = plan(items, cost).finish_us;
    for (const Plan& other : rules_of_others(items, cost))
      EXPECT_GE(other.finish_us, best - 1e-6) << other.rule << ", seed " << seed;
  }
}

TEST(Costs, a_fit_finds_the_line_that_points_are_on) {
  const LinearCost line{.idle_us = 40, .queued_us = 15, .byte_us = 0.002};
  std::vector<CostPoint> single;
  std::vector<CostPoint> queued;
  for (const std::uint64_t bytes : {1000U, 5000U, 100'000U}) {
    single.push_back({bytes, line.idle(bytes)});
    queued.push_back({bytes, line.queued(bytes)});
  }
  const LinearCost found = fit(single, queued);
  EXPECT_NEAR(found.idle_us, line.idle_us, 1e-6);
  EXPECT_NEAR(found.queued_us, line.queued_us, 1e-6);
  EXPECT_NEAR(found.byte_us, line.byte_us, 1e-9);
  EXPECT_NEAR(fit(single, {}).queued_us, line.idle_us, 1e-6);
  EXPECT_THROW((void)fit(std::span(single).first(1), {}), Error);
}

TEST(Costs, between_points_it_goes_straight_and_on_beyond_them) {
  const Cost cost = Cost::between({{100, 10}, {300, 30}, {500, 70}}, 4);
  EXPECT_DOUBLE_EQ(cost.idle(200), 20);
  EXPECT_DOUBLE_EQ(cost.idle(600), 90);
  EXPECT_DOUBLE_EQ(cost.idle(0), 0);
  EXPECT_DOUBLE_EQ(cost.queued(200), 16);
  EXPECT_THROW((void)Cost::between({}), Error);
  EXPECT_THROW((void)Cost::between({{1, 1}, {1, 2}}), Error);
}

TEST(Explain, has_the_plan_what_was_measured_and_the_bound) {
  const std::vector<Item> items = {{"w1", 0, 1000}, {"w0", 100, 1000}};
  const Cost cost = Cost::of(LinearCost{10, 10, 0.01});
  const std::string text = explain(plan(items, cost), cost, rules_of_others(items, cost),
                                   PlanMeasurement{.finish_us = 125.5, .exposed_us = 25.5});
  EXPECT_THAT(text, HasSubstr("2 gradients in 2 buckets by optimum"));
  EXPECT_THAT(text, HasSubstr("predicted: ends at 120.0 us, exposed 20.0 us"));
  EXPECT_THAT(text, HasSubstr("measured:  ends at 125.5 us, exposed 25.5 us"));
  EXPECT_THAT(text, HasSubstr("no plan ends before 120.0 us"));
  EXPECT_THAT(text, HasSubstr("merging (MG-WFBP)"));
}

}  // namespace
}  // namespace cohort::graph::plan_of_buckets_test
