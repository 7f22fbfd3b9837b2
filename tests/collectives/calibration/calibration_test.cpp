// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/calibration/calibration.h>
#include <cohort/engine/system/processor.h>
#include <cohort/net/membership.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>

namespace cohort::calibration_test {
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
    EXPECT_EQ(platform->usable_cores(), before)
        << "a communicator that joins meanwhile tells where it may run";
    const OnOwnCore of_another(*platform, alone);
  }
  EXPECT_EQ(processor::usable_cores(), before);
}

TEST(Calibration, leaves_a_rank_where_its_program_has_bound_it_meanwhile) {
  const CoreSet before = processor::usable_cores();
  if (before.count() < 2) GTEST_SKIP() << "there is one core only";
  Membership alone;
  alone.peers.emplace_back().cores = before;
  const std::unique_ptr<Platform> platform = make_real_platform();
  CoreSet last;
  for (std::size_t core = 0; core < kMostCores; ++core)
    if (before.test(core)) last = CoreSet().set(core);
  {
    const OnOwnCore on_own_core(*platform, alone);
    processor::run_on(last);
  }
  EXPECT_EQ(processor::usable_cores(), last);
  processor::run_on(before);
}

/// Whoever waits for it drives a program's engine: one thread when ranks begin to measure, another later.
class OnTwoThreads : public testing::Test {
 protected:
  OnTwoThreads() { alone_.peers.emplace_back().cores = before_; }
  ~OnTwoThreads() override { processor::run_on(before_); }

  static CoreSet cores_on_another_thread(const std::function<void()>& work) {
    CoreSet cores;
    std::thread([&] {
      work();
      cores = processor::usable_cores();
    }).join();
    return cores;
  }

  const CoreSet before_ = processor::usable_cores();
  Membership alone_;
  const std::unique_ptr<Platform> platform_ = make_real_platform();
};

TEST_F(OnTwoThreads, frees_the_one_that_was_bound) {
  if (before_.count() < 2) GTEST_SKIP() << "there is one core only";
  std::optional<OnOwnCore> on_own_core(std::in_place, *platform_, alone_);
  ASSERT_EQ(processor::usable_cores().count(), 1U);
  static_cast<void>(cores_on_another_thread([&] { on_own_core.reset(); }));
  EXPECT_EQ(processor::usable_cores(), before_);
}

TEST_F(OnTwoThreads, keeps_the_one_that_measures_on_the_core) {
  if (before_.count() < 2) GTEST_SKIP() << "there is one core only";
  std::optional<OnOwnCore> on_own_core(std::in_place, *platform_, alone_);
  const CoreSet own = processor::usable_cores();
  const CoreSet freed = cores_on_another_thread([&] {
    processor::run_on(before_);  // as one that was there before
    platform_->keep_core();
    EXPECT_EQ(processor::usable_cores(), own);
    on_own_core.reset();
  });
  EXPECT_EQ(freed, before_);
  EXPECT_EQ(processor::usable_cores(), before_);
}

TEST_F(OnTwoThreads, forgets_one_that_has_ended) {
  std::optional<OnOwnCore> on_own_core;
  static_cast<void>(cores_on_another_thread([&] { on_own_core.emplace(*platform_, alone_); }));
  platform_->keep_core();
  EXPECT_EQ(processor::usable_cores().count(), 1U) << "this one measures now";
  on_own_core.reset();
  EXPECT_EQ(processor::usable_cores(), before_);
}

TEST(Calibration, binds_nobody_to_a_core_on_which_it_may_not_run) {
  const CoreSet before = processor::usable_cores();
  Membership alone;
  alone.peers.emplace_back().cores = CoreSet().set(kMostCores - 1);
  const std::unique_ptr<Platform> platform = make_real_platform();
  const OnOwnCore on_own_core(*platform, alone);
  EXPECT_EQ(processor::usable_cores(), before);
}

}  // namespace
}  // namespace cohort::calibration_test
