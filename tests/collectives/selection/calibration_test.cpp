// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/calibration.h>
#include <cohort/engine/system/processor.h>
#include <cohort/net/membership.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Calibration, leaves_ranks_where_they_may_run) {
  const CoreSet before = processor::usable_cores();
  test::run_ranks(2, [&](Communicator&) -> Task<> {
    EXPECT_EQ(processor::usable_cores(), before);
    co_return;
  });
}

TEST(Calibration, keeps_a_rank_on_its_core_meanwhile) {
  const CoreSet before = processor::usable_cores();
  Membership alone;
  alone.peers.emplace_back().cores = before;
  const std::unique_ptr<Platform> platform = make_real_platform();
  {
    const OnOwnCore on_own_core(*platform, alone);
    EXPECT_EQ(processor::usable_cores().count(), 1U);
  }
  EXPECT_EQ(processor::usable_cores(), before);
}

}  // namespace
}  // namespace cohort
