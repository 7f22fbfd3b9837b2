// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/selection/call_plan.h>
#include <cohort/engine/tuning.h>
#include <cohort/tests/support/schedules.h>

#include <gmock/gmock.h>

namespace cohort {
namespace {

using ::testing::HasSubstr;

constexpr Rank kRanks = 4;
constexpr std::size_t kKiB = tuning::kKiB;

template <class Op>
Call call(std::string_view algorithm, std::size_t bytes) {
  Call call = make_call_of_size(operator_of<Op>, DataType::float32, bytes, kRanks);
  call.algorithm = &test::library<Op>(algorithm);
  return call;
}

Reach one_host() { return {.is_host_wide = true, .hosts = kRanks, .buffer_bytes = 4 * tuning::kMiB}; }

constexpr HostPlan kCoreEach{.cores = CoreSupply::one_each};
constexpr HostPlan kShared{.cores = CoreSupply::shared};

TEST(CallPlan, data_leaves_its_slot_for_a_ring_from_a_size_on_that_depends_on_cores) {
  const Call small = call<AllReduce>("slots", 2 * kKiB);
  const Call medium = call<AllReduce>("slots", 16 * kKiB);
  const Call large = call<AllReduce>("slots", 64 * kKiB);
  EXPECT_EQ(plan_for(small, kCoreEach, one_host()).ring_bytes, 0U);
  EXPECT_EQ(plan_for(medium, kCoreEach, one_host()).ring_bytes, 2 * tuning::stages::kRing / kRanks);
  EXPECT_EQ(plan_for(medium, kShared, one_host()).ring_bytes, 0U);
  EXPECT_EQ(plan_for(large, kShared, one_host()).ring_bytes, 2 * tuning::stages::kRing / kRanks);
  HostPlan without = kShared;
  without.goes_round = false;
  EXPECT_EQ(plan_for(large, without, one_host()).ring_bytes, 0U);
  EXPECT_EQ(plan_for(call<Broadcast>("slots", 64 * kKiB), without, one_host()).ring_bytes,
            tuning::stages::kRing)
      << "a root's part of the caches is everybody's";
}

TEST(CallPlan, mapped_memory_stays_where_it_is_where_the_phase_costs_less_than_the_copy) {
  EXPECT_FALSE(plan_for(call<AllReduce>("slots", 8 * kKiB), kCoreEach, one_host()).may_refer);
  const Call medium = call<AllReduce>("slots", 16 * kKiB);
  EXPECT_TRUE(plan_for(medium, kCoreEach, one_host()).may_refer);
  EXPECT_FALSE(plan_for(medium, kCoreEach, one_host()).may_refer_on_shared_cores);
  EXPECT_FALSE(plan_for(medium, kShared, one_host()).may_refer);
  EXPECT_TRUE(plan_for(call<AllReduce>("slots", 64 * kKiB), kShared, one_host()).may_refer);
}

TEST(CallPlan, who_only_gives_runs_ahead_unless_a_phase_may_end_the_call) {
  EXPECT_TRUE(plan_for(call<Broadcast>("slots", 64 * kKiB), kCoreEach, one_host()).may_run_ahead);
  EXPECT_TRUE(plan_for(call<Reduce>("slots", 8 * kKiB), kCoreEach, one_host()).may_run_ahead);
  EXPECT_FALSE(plan_for(call<Reduce>("slots", 64 * kKiB), kCoreEach, one_host()).may_run_ahead);
  EXPECT_FALSE(plan_for(call<AllReduce>("slots", 8), kCoreEach, one_host()).may_run_ahead);
}

TEST(CallPlan, private_buffers_are_staged_unless_the_kernels_copy_is_known_to_win) {
  Reach reach = one_host();
  reach.pull.set_from(64 * kKiB);
  for (const Call& large :
       {call<AllToAll>("direct", 4 * tuning::kMiB), call<AllGather>("direct", 4 * tuning::kMiB)}) {
    EXPECT_FALSE(plan_for(large, kCoreEach, one_host()).pulls) << to_string(large.op);
    EXPECT_TRUE(plan_for(large, kCoreEach, reach).pulls) << to_string(large.op);
    EXPECT_THAT(words_of_plan(large, kCoreEach, reach), HasSubstr("kernel")) << to_string(large.op);
  }
}

TEST(CallPlan, there_is_none_between_hosts) {
  const Reach reach{.hosts = kRanks};
  const Call medium = call<AllReduce>("ring", 64 * kKiB);
  EXPECT_EQ(plan_for(medium, kCoreEach, reach).ring_bytes, 0U);
  EXPECT_EQ(words_of_plan(medium, kCoreEach, reach), "");
}

}  // namespace
}  // namespace cohort
