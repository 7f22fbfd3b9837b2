// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/dynamic_bucket_scheduler.h>

#include <cohort/engine/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace cohort::graph::dynamic_bucket_scheduler_test {
namespace {

using Rule = DynamicBucketScheduler::Rule;
using ::testing::ElementsAre;

TEST(DynamicBucketScheduler, the_rule_seed_halves_below_the_target_and_doubles_otherwise) {
  DynamicBucketScheduler scheduler({.rule = Rule::seed, .target_throughput = 100});
  std::vector<std::uint64_t> sizes;
  for (const double throughput : {79.0, 79.0, 81.0, 1000.0, 100.0})
    sizes.push_back(scheduler.adjust_bucket_size(throughput));
  EXPECT_THAT(sizes, ElementsAre(12U, 6U, 12U, 24U, 48U));
  for (int i = 0; i < 20; ++i) scheduler.adjust_bucket_size(100);
  EXPECT_EQ(scheduler.bucket_mebibytes(), 256U);
  for (int i = 0; i < 20; ++i) scheduler.adjust_bucket_size(1);
  EXPECT_EQ(scheduler.bucket_mebibytes(), 1U);
}

TEST(DynamicBucketScheduler, at_a_constant_throughput_the_default_comes_to_rest) {
  for (const double throughput : {10.0, 85.0, 100.0, 500.0}) {
    DynamicBucketScheduler scheduler({.target_throughput = 100});
    for (int i = 0; i < 12; ++i) scheduler.adjust_bucket_size(throughput);
    const std::uint64_t settled = scheduler.bucket_mebibytes();
    EXPECT_EQ(settled, 25U) << "a change that gained nothing is taken back";
    for (int i = 0; i < 100; ++i) EXPECT_EQ(scheduler.adjust_bucket_size(throughput), settled);
  }
}

TEST(DynamicBucketScheduler, one_slow_step_changes_nothing) {
  DynamicBucketScheduler scheduler({.target_throughput = 100});
  for (const double throughput : {90.0, 10.0, 90.0, 10.0, 90.0})
    EXPECT_EQ(scheduler.adjust_bucket_size(throughput), 25U);
}

TEST(DynamicBucketScheduler, keeps_a_change_that_pays) {
  DynamicBucketScheduler scheduler({.target_throughput = 100});
  // A link that is best with buckets of 8 MiB at most.
  const auto throughput = [&] {
    return scheduler.bucket_mebibytes() <= 8 ? 95.0
                                             : 50.0 / static_cast<double>(scheduler.bucket_mebibytes()) * 12;
  };
  for (int i = 0; i < 60; ++i) scheduler.adjust_bucket_size(throughput());
  EXPECT_LE(scheduler.bucket_mebibytes(), 8U);
  EXPECT_GE(scheduler.bucket_mebibytes(), 4U);
}

TEST(DynamicBucketScheduler, around_an_optimum_it_tries_half_and_double_only) {
  DynamicBucketScheduler scheduler({.target_throughput = 100});
  Plan plan;
  plan.buckets = {{.first = 0, .end = 1, .bytes = 3U << 20U}, {.first = 1, .end = 2, .bytes = 8U << 20U}};
  scheduler.follow(plan);
  EXPECT_EQ(scheduler.bucket_mebibytes(), 8U);
  std::set<std::uint64_t> tried;
  double throughput = 100;
  for (int i = 0; i < 200; ++i) tried.insert(scheduler.adjust_bucket_size(throughput *= 1.05));
  for (int i = 0; i < 400; ++i) tried.insert(scheduler.adjust_bucket_size(throughput *= 0.95));
  EXPECT_THAT(tried, ::testing::Each(::testing::AllOf(::testing::Ge(4U), ::testing::Le(16U))));
}

TEST(DynamicBucketScheduler, refuses_a_target_of_nothing) {
  EXPECT_THROW(DynamicBucketScheduler({.target_throughput = 0}), Error);
}

}  // namespace
}  // namespace cohort::graph::dynamic_bucket_scheduler_test
