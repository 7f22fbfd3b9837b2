// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/planner.h>

#include <cohort/engine/error.h>
#include <cohort/tests/graph/planner/random_items.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace cohort::graph::planner_test {
namespace {

using test::Random;
using test::whole;

/// Every way to cut the items that the limits allow; the end of the best one.
double best_by_force(const std::vector<Item>& items, const Cost& cost, const Limits& limits) {
  double best = std::numeric_limits<double>::infinity();
  const std::size_t cuts = std::size_t{1} << (items.size() - 1);
  for (std::size_t cut = 0; cut < cuts; ++cut) {
    double before = -std::numeric_limits<double>::infinity();
    std::size_t first = 0;
    bool is_allowed = true;
    std::uint64_t bytes = 0;
    for (std::size_t end = 1; end <= items.size() && is_allowed; ++end) {
      bytes += items[end - 1].bytes;
      if (end != items.size() && ((cut >> (end - 1)) & 1U) == 0) continue;
      is_allowed = limits.allows(items, first, end);
      before = std::max(items[end - 1].ready_us + cost.idle(bytes), before + cost.queued(bytes));
      first = end;
      bytes = 0;
    }
    if (is_allowed) best = std::min(best, before);
  }
  return best;
}

/// Sums of bytes times a slope differ in their last digits by the order of adding.
void expect_same(double one, double other, std::uint64_t seed) {
  EXPECT_NEAR(one, other, 1e-9 * (1 + std::abs(other))) << "seed " << seed;
}

TEST(Planner, equals_brute_force_for_any_cost_and_any_limits) {
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    Random random(seed);
    const std::vector<Item> items = test::random_items(random, whole(random, 1, 12));
    const Limits limits = seed % 2 == 0 ? Limits{} : test::random_limits(random);
    const LinearCost line = test::random_line(random);
    expect_same(plan_linear(items, line, limits).finish_us, best_by_force(items, Cost::of(line), limits),
                seed);
    const Cost cost = test::random_cost(random);
    expect_same(plan_any(items, cost, limits).finish_us, best_by_force(items, cost, limits), seed);
    if (HasFailure()) break;
  }
}

TEST(Planner, the_linear_programme_equals_the_square_one) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::vector<Item> items = test::random_items(random, seed == 0 ? 2000 : whole(random, 1, 500));
    const Limits limits = seed % 3 == 0 ? Limits{} : test::random_limits(random);
    const LinearCost line = test::random_line(random);
    const Plan fast = plan_linear(items, line, limits);
    expect_same(fast.finish_us, plan_any(items, Cost::of(line), limits).finish_us, seed);
    for (const Bucket& bucket : fast.buckets)
      EXPECT_TRUE(limits.allows(fast.items, bucket.first, bucket.end)) << "seed " << seed;
  }
}

/// The same recurrence written backwards, from each bucket to those behind it, for costs that jump.
double best_forwards(const std::vector<Item>& items, const Cost& cost) {
  std::vector<double> ends(items.size() + 1, std::numeric_limits<double>::infinity());
  ends[0] = -std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first < items.size(); ++first) {
    std::uint64_t bytes = 0;
    for (std::size_t end = first + 1; end <= items.size(); ++end) {
      bytes += items[end - 1].bytes;
      ends[end] = std::min(
          ends[end], std::max(items[end - 1].ready_us + cost.idle(bytes), ends[first] + cost.queued(bytes)));
    }
  }
  return ends.back();
}

TEST(Planner, equals_the_square_programme_for_costs_that_jump) {
  for (const std::size_t count : {2U, 77U, 500U, 2000U}) {
    Random random(count);
    const std::vector<Item> items = test::random_items(random, count);
    const Cost cost = test::random_cost(random);
    expect_same(plan_any(items, cost).finish_us, best_forwards(items, cost), count);
  }
}

TEST(Planner, no_plan_ends_before_the_lower_bound) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const std::vector<Item> items = test::random_items(random, whole(random, 1, 40));
    const Cost line = Cost::of(test::random_line(random));
    const double finish = plan(items, line).finish_us;
    EXPECT_GE(finish, lower_bound_us(items, line) - 1e-9) << "seed " << seed;
    Cost same = line;
    same.linear.reset();
    EXPECT_GE(finish, lower_bound_us(items, same) - 1e-9) << "seed " << seed;
    EXPECT_LE(lower_bound_us(items, same), lower_bound_us(items, line) + 1e-9) << "seed " << seed;
  }
}

TEST(Planner, one_bucket_where_start_up_is_all_and_each_alone_where_it_is_nothing) {
  std::vector<Item> items;
  for (int i = 0; i < 4; ++i) items.push_back({.name = "g", .ready_us = 10.0 * i, .bytes = 100});
  EXPECT_EQ(plan(items, Cost::of(LinearCost{1000, 1000, 0.001})).buckets.size(), 1U);
  EXPECT_EQ(plan(items, Cost::of(LinearCost{0, 0, 0.09})).buckets.size(), 4U);
}

TEST(Planner, an_item_larger_than_a_bucket_is_one_by_itself) {
  const std::vector<Item> items = {{"a", 0, 10}, {"b", 0, 1000}, {"c", 0, 10}, {"d", 0, 10}};
  const Plan made = plan(items, Cost::of(LinearCost{10, 10, 0.01}), {.bucket_bytes = 100});
  ASSERT_EQ(made.buckets.size(), 3U);
  EXPECT_EQ(made.buckets[1].bytes, 1000U);
}

TEST(Planner, nothing_to_plan_is_a_plan_of_nothing) {
  const Plan made = plan({}, Cost::of(LinearCost{1, 1, 1}));
  EXPECT_TRUE(made.buckets.empty());
  EXPECT_EQ(made.finish_us, 0);
  EXPECT_EQ(made.exposed_us(), 0);
}

TEST(Planner, refuses_items_that_are_not_in_order) {
  EXPECT_THROW((void)plan({{"a", 5, 1}, {"b", 1, 1}}, Cost::of(LinearCost{1, 1, 1})), Error);
}

}  // namespace
}  // namespace cohort::graph::planner_test
