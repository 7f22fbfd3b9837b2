// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/timer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace cohort::timer_test {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration offset) { return TimePoint(offset); }

class TestTimer final : public Timer {
 public:
  explicit TestTimer(std::function<void()> action = [] {}) : action_(std::move(action)) {}
  ~TestTimer() override = default;
  int expired = 0;

 private:
  void expire() noexcept override {
    EXPECT_FALSE(is_armed());
    ++expired;
    action_();
  }
  std::function<void()> action_;
};

TEST(TimerQueue, expires_what_is_due_in_order_of_time_and_nothing_else) {
  TimerQueue queue;
  std::vector<int> order;
  TestTimer third([&] { order.push_back(3); });
  TestTimer first([&] { order.push_back(1); });
  TestTimer second([&] { order.push_back(2); });
  queue.arm(third, at(30ms));
  queue.arm(first, at(10ms));
  queue.arm(second, at(20ms));
  EXPECT_EQ(queue.earliest(), at(10ms));
  EXPECT_FALSE(queue.expire_due(at(9ms)));
  EXPECT_TRUE(queue.expire_due(at(20ms)));
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_EQ(queue.earliest(), at(30ms));
  EXPECT_TRUE(queue.expire_due(at(1h)));
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_EQ(queue.earliest(), kNever);
}

TEST(TimerQueue, timers_of_one_moment_expire_in_the_order_in_which_they_were_armed) {
  TimerQueue queue;
  std::vector<int> order;
  std::vector<std::unique_ptr<TestTimer>> timers;
  for (int i = 0; i < 20; ++i)
    timers.push_back(std::make_unique<TestTimer>([&order, i] { order.push_back(i); }));
  for (const auto& timer : timers) queue.arm(*timer, at(10ms));
  queue.arm(*timers[5], at(10ms));  // now the last
  queue.disarm(*timers[7]);
  queue.expire_due(at(10ms));
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 5}));
}

TEST(TimerQueue, armed_timer_can_be_moved_both_ways_and_disarmed) {
  TimerQueue queue;
  TestTimer moved;
  TestTimer other;
  queue.arm(other, at(20ms));
  queue.arm(moved, at(10ms));
  queue.arm(moved, at(30ms));
  EXPECT_EQ(queue.earliest(), at(20ms));
  queue.arm(moved, at(5ms));
  EXPECT_EQ(queue.earliest(), at(5ms));
  queue.disarm(moved);
  queue.disarm(moved);
  EXPECT_FALSE(moved.is_armed());
  EXPECT_EQ(queue.earliest(), at(20ms));
  queue.arm(other, kNever);
  EXPECT_FALSE(other.is_armed());
  EXPECT_FALSE(queue.expire_due(at(1h)));
}

TEST(TimerQueue, timer_may_arm_itself_again_when_it_expires) {
  TimerQueue queue;
  Duration next = 10ms;
  std::optional<TestTimer> periodic;
  periodic.emplace([&] { queue.arm(*periodic, at(next += 10ms)); });
  queue.arm(*periodic, at(next));
  queue.expire_due(at(35ms));
  EXPECT_EQ(periodic->expired, 3);
  EXPECT_EQ(queue.earliest(), at(40ms));
}

TEST(TimerQueue, timer_disarmed_by_another_that_expires_in_the_same_moment_stays_silent) {
  TimerQueue queue;
  TestTimer victim;
  TestTimer killer([&] { queue.disarm(victim); });
  queue.arm(killer, at(10ms));
  queue.arm(victim, at(10ms + 1ns));
  queue.expire_due(at(20ms));
  EXPECT_EQ(killer.expired, 1);
  EXPECT_EQ(victim.expired, 0);
}

TEST(TimerQueue, destroyed_timer_is_forgotten) {
  TimerQueue queue;
  TestTimer stays;
  queue.arm(stays, at(20ms));
  {
    TestTimer goes;
    queue.arm(goes, at(10ms));
  }
  EXPECT_EQ(queue.earliest(), at(20ms));
}

TEST(TimerQueue, armed_timer_may_outlive_its_queue_and_move_to_another) {
  TestTimer timer;
  TimerQueue other;
  {
    TimerQueue queue;
    queue.arm(timer, at(10ms));
    other.arm(timer, at(20ms));
    EXPECT_EQ(queue.earliest(), kNever);
    EXPECT_EQ(other.earliest(), at(20ms));
    queue.arm(timer, at(10ms));
    EXPECT_EQ(other.earliest(), kNever);
  }
  EXPECT_FALSE(timer.is_armed());
  other.arm(timer, at(30ms));
  EXPECT_TRUE(other.expire_due(at(30ms)));
  EXPECT_EQ(timer.expired, 1);
}

/// Thousands of random operations against a model that sorts: the heap must agree at every step.
TEST(TimerQueue, agrees_with_a_sorted_list_under_random_use) {
  constexpr std::size_t kTimers = 64;
  const unsigned seed = 20240229;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TimerQueue queue;
  std::vector<std::unique_ptr<TestTimer>> timers;
  std::vector<std::optional<TimePoint>> model(kTimers);
  for (std::size_t i = 0; i < kTimers; ++i) timers.push_back(std::make_unique<TestTimer>());
  TimePoint now{};
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t which = random() % kTimers;
    const auto choice = random() % 8;
    if (choice < 5) {
      model[which] = now + std::chrono::nanoseconds(random() % 50);
      queue.arm(*timers[which], *model[which]);
    } else if (choice == 5) {
      model[which].reset();
      queue.disarm(*timers[which]);
    } else {
      now += std::chrono::nanoseconds(random() % 10);
      queue.expire_due(now);
      for (auto& when : model)
        if (when && *when <= now) when.reset();
    }
    TimePoint earliest = kNever;
    for (std::size_t i = 0; i < kTimers; ++i) {
      ASSERT_EQ(timers[i]->is_armed(), model[i].has_value()) << "step " << step;
      if (model[i]) earliest = std::min(earliest, *model[i]);
    }
    ASSERT_EQ(queue.earliest(), earliest) << "step " << step;
  }
}

}  // namespace
}  // namespace cohort::timer_test
