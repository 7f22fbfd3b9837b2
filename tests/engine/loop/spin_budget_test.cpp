// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/spin_budget.h>

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>

namespace cohort::spin_budget_test {
namespace {

using namespace std::chrono_literals;

TEST(SpinBudget, is_twice_the_latest_wake_at_once) {
  SpinBudget budget(std::nullopt);
  EXPECT_EQ(budget.current(), SpinBudget::kLeast);
  budget.note_wake(110us);
  EXPECT_EQ(budget.current(), 220us);
  budget.note_wake(300us);
  EXPECT_EQ(budget.current(), 600us);
  EXPECT_EQ(budget.least(), SpinBudget::kLeast) << "nobody waits for a peer";
}

TEST(SpinBudget, stays_within_bounds_whatever_a_wake_took) {
  SpinBudget budget(std::nullopt);
  for (const Duration latency : {Duration(0), Duration(-1h), Duration(1ns), Duration(24h)}) {
    budget.note_wake(latency);
    EXPECT_EQ(budget.current(), SpinBudget::kLeast);
  }
  budget.note_wake(SpinBudget::kMost / 2);
  EXPECT_EQ(budget.current(), SpinBudget::kMost);
}

TEST(SpinBudget, outlives_a_fast_wake_and_falls_with_many) {
  SpinBudget budget(std::nullopt);
  budget.note_wake(400us);
  budget.note_wake(1us);
  EXPECT_GT(budget.current(), 600us);
  Duration last = budget.current();
  for (int i = 0; i < 50; ++i) {
    budget.note_wake(100us);
    EXPECT_LE(budget.current(), last);
    EXPECT_GE(budget.current(), 200us);
    last = budget.current();
  }
  EXPECT_EQ(last, 200us);
}

TEST(SpinBudget, covers_a_wait_that_two_wakes_may_have_taken) {
  SpinBudget budget(std::nullopt);
  budget.note_wait(230us);
  EXPECT_EQ(budget.current(), 230us);
  budget.note_wait(SpinBudget::kMost);
  EXPECT_EQ(budget.current(), SpinBudget::kMost);
}

/// As on cores that a busy program has for milliseconds.
TEST(SpinBudget, falls_while_wakes_and_waits_are_longer_than_it_may_be) {
  SpinBudget budget(std::nullopt);
  for (const bool tells : {false, true}) {
    budget.note_wait(800us);
    for (int i = 0; i < 100; ++i) tells ? budget.note_wake(4ms) : budget.note_wait(SpinBudget::kMost + 1us);
    EXPECT_LT(budget.current(), SpinBudget::kLeast + 1us);
  }
}

TEST(SpinBudget, that_was_set_is_obeyed) {
  for (const Duration set : {Duration(0), Duration(7us), Duration(1s)}) {
    SpinBudget budget(set);
    budget.note_wake(200us);
    budget.note_wait(200us);
    EXPECT_TRUE(budget.is_fixed());
    EXPECT_EQ(budget.current(), set);
    EXPECT_EQ(budget.least(), set);
  }
}

/// Two ranks that answer each other in turn: each posts, then waits for the other one's post, spinning for as
/// long as its budget says, then asleep. One that sleeps is resumed some time after the post.
///
/// Where the doorbell tells when it was rung, the budget learns of that; else of the wait.
class TwoWaiters {
 public:
  TwoWaiters(std::optional<Duration> fixed, bool tells)
      : ranks_{Waiter(fixed), Waiter(fixed)}, tells_(tells) {}

  /// One rank's part in an operation: it has been answered by now, works, posts, and waits. A rank that
  /// sleeps takes `latency` to be resumed. Whether the other one slept.
  bool post(Duration latency, Duration works = kWork) {
    const TimePoint posted = ranks_[next_].resumed + works;
    ranks_[next_].waits_since = posted;
    next_ = 1 - next_;
    Waiter& other = ranks_[next_];
    const bool sleeps = posted - other.waits_since > other.budget.current();
    other.resumed = sleeps ? posted + latency : posted;
    if (sleeps && tells_) other.budget.note_wake(latency);
    if (sleeps && !tells_) other.budget.note_wait(other.resumed - other.waits_since);
    return sleeps;
  }

  [[nodiscard]] TimePoint now() const { return ranks_[next_].resumed; }

  static constexpr Duration kWork = 1us;

 private:
  struct Waiter {
    explicit Waiter(std::optional<Duration> fixed) : budget(fixed) {}
    SpinBudget budget;
    TimePoint waits_since{};
    TimePoint resumed{};
  };
  std::array<Waiter, 2> ranks_;
  std::size_t next_ = 0;
  const bool tells_;
};

class Waiters : public ::testing::TestWithParam<bool> {};

constexpr Duration kDisturbance = 5ms;
constexpr int kPosts = 1000;

TEST_P(Waiters, do_not_keep_each_other_asleep_after_a_disturbance) {
  for (Duration latency = 1us; latency <= 500us; latency += 1us) {
    TwoWaiters waiters(std::nullopt, GetParam());
    for (int i = 0; i < kPosts; ++i) EXPECT_FALSE(waiters.post(latency));
    EXPECT_TRUE(waiters.post(latency, kDisturbance));
    const TimePoint disturbed = waiters.now();
    TimePoint slept_last = disturbed;
    int slept = 0;
    for (int i = 0; i < kPosts; ++i) {
      if (!waiters.post(latency)) continue;
      ++slept;
      slept_last = waiters.now();
    }
    EXPECT_LE(slept, 3) << in_microseconds(latency) << " us";
    EXPECT_LE(slept_last - disturbed, 4 * (latency + TwoWaiters::kWork)) << in_microseconds(latency) << " us";
  }
}

/// What a fixed budget below the latency of a wake does: the fault that the learnt one is to mend.
TEST_P(Waiters, keep_each_other_asleep_for_ever_if_they_spin_for_less_than_a_wake) {
  for (Duration latency = 60us; latency <= 500us; latency += 10us) {
    TwoWaiters waiters(SpinBudget::kLeast, GetParam());
    for (int i = 0; i < kPosts; ++i) EXPECT_FALSE(waiters.post(latency));
    EXPECT_TRUE(waiters.post(latency, kDisturbance));
    for (int i = 0; i < kPosts; ++i) EXPECT_TRUE(waiters.post(latency));
  }
}

/// Beside a program that takes the core away again and again, and with wakes of any latency.
TEST_P(Waiters, soon_are_awake_again_whatever_each_wake_takes) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> latency_us(1, 500);
    std::uniform_int_distribution<int> posts_between(20, 2000);
    TwoWaiters waiters(std::nullopt, GetParam());
    int slept = 0;
    constexpr int kDisturbances = 200;
    for (int disturbances = 0; disturbances < kDisturbances; ++disturbances) {
      slept += waiters.post(latency_us(random) * 1us, kDisturbance) ? 1 : 0;
      const int posts = posts_between(random);
      int in_a_row = 0;
      for (int i = 0; i < posts; ++i) {
        const bool sleeps = waiters.post(latency_us(random) * 1us);
        slept += sleeps ? 1 : 0;
        in_a_row = sleeps ? in_a_row + 1 : 0;
        ASSERT_LE(in_a_row, 6);
      }
    }
    EXPECT_LE(slept, 2 * kDisturbances);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Waiters, ::testing::Bool(), [](const auto& test) {
  return test.param ? "rung_by_a_doorbell" : "woken_by_the_kernel";
});

}  // namespace
}  // namespace cohort::spin_budget_test
