// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/exec.h>

#include <cohort/collectives/machines/check/rank_exec.h>
#include <cohort/engine/tuning.h>
#include <cohort/tests/support/schedules.h>

#include <gtest/gtest.h>

namespace cohort::exec_test {
namespace {

TEST(Exec, what_a_rank_announced_may_be_taken_twice) {
  check::CheckOptions options;
  options.ranks = 3;
  const check::Plan plan =
      check::plan_of(test::library<AllReduce>("slots"), options, tuning::slots::kMostBytes);
  check::Machine machine(plan, nullptr);
  check::RankExec x(machine, 0);
  for (const Rank of : {2U, 1U, 2U}) x.take_announcement(of, 64, true);
  EXPECT_FALSE(x.all_referred()) << "rank 0 has not";
  for (const Rank of : {0U, 0U}) x.take_announcement(of, 64, true);
  EXPECT_TRUE(x.all_referred());
  for (const Rank of : {1U, 0U, 2U, 1U}) x.take_announcement(of, 64, false);
  for (const Rank of : {0U, 1U, 2U}) EXPECT_FALSE(x.has_referred(of));
  for (const Rank of : {2U, 0U}) x.take_announcement(of, 64, true);
  EXPECT_FALSE(x.all_referred()) << "rank 1 has not";
}

}  // namespace
}  // namespace cohort::exec_test
