// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/stores_trial.h>

#include <gtest/gtest.h>

namespace cohort::stores_trial_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kOp = 3;

/// A machine on which calls take so long, by what they touch and how they store it.
class Machine {
 public:
  Machine(std::size_t told_bytes, std::size_t real_bytes) : trial_(told_bytes), real_bytes_(real_bytes) {}

  Stores call(std::size_t footprint, double slowness = 1) {
    if (!trial_.is_about(footprint)) return Stores::cached;
    const Stores stores = trial_.begin(kOp, footprint, now_);
    const Stores better = footprint > real_bytes_ / 4 * 5 ? Stores::streaming : Stores::cached;
    const double us = static_cast<double>(footprint) / 1e4 * slowness * (stores == better ? 1 : 1.4);
    now_ += std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1e3));
    trial_.end(now_);
    return stores;
  }
  /// What most of the following calls do.
  Stores settled(std::size_t footprint) {
    for (unsigned i = 0; i < 2 * StoresTrial::kTries; ++i) call(footprint);
    const Stores stores = call(footprint);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(call(footprint), stores);
    return stores;
  }

 private:
  StoresTrial trial_;
  std::size_t real_bytes_;
  TimePoint now_{};
};

TEST(StoresTrial, finds_a_cache_that_is_smaller_than_the_machine_says) {
  Machine machine(508 * kMiB, 32 * kMiB);
  EXPECT_EQ(machine.settled(400 * kMiB), Stores::streaming);
  Machine bounded(32 * kMiB, 8 * kMiB);
  EXPECT_EQ(bounded.settled(20 * kMiB), Stores::streaming);
}

TEST(StoresTrial, finds_a_cache_that_is_larger_than_was_guessed) {
  Machine machine(32 * kMiB, 256 * kMiB);
  EXPECT_EQ(machine.settled(128 * kMiB), Stores::cached);
  EXPECT_EQ(machine.settled(500 * kMiB), Stores::streaming);
}

TEST(StoresTrial, begins_with_what_the_guess_says) {
  Machine machine(32 * kMiB, 32 * kMiB);
  EXPECT_EQ(machine.call(4 * kMiB), Stores::cached);
  EXPECT_EQ(machine.call(24 * kMiB), Stores::cached);
  EXPECT_EQ(machine.call(64 * kMiB), Stores::streaming);
}

/// Whatever disturbed the calls in which both were tried.
TEST(StoresTrial, tries_both_ways_again) {
  Machine machine(32 * kMiB, 32 * kMiB);
  for (unsigned i = 0; i < 2 * StoresTrial::kTries; ++i) machine.call(64 * kMiB, i % 2 == 0 ? 10 : 1);
  EXPECT_EQ(machine.call(64 * kMiB), Stores::cached) << "it was disturbed";
  for (unsigned i = 0; i < StoresTrial::kPeriod + 2 * StoresTrial::kTries; ++i) machine.call(64 * kMiB);
  EXPECT_EQ(machine.call(64 * kMiB), Stores::streaming);
}

TEST(StoresTrial, a_call_that_failed_tells_nothing) {
  StoresTrial trial(32 * kMiB);
  const TimePoint now{};
  const Stores first = trial.begin(kOp, 64 * kMiB, now);
  EXPECT_EQ(trial.begin(kOp, 64 * kMiB, now), first);
  trial.end(now + std::chrono::milliseconds(1));
  EXPECT_NE(trial.begin(kOp, 64 * kMiB, now), first);
  trial.end(now + std::chrono::milliseconds(2));
  trial.end(now + std::chrono::milliseconds(9));
  EXPECT_EQ(trial.begin(kOp, 64 * kMiB, now), first);
}

}  // namespace
}  // namespace cohort::stores_trial_test
