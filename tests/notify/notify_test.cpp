// SPDX-License-Identifier: Apache-2.0
#include <cohort/notify/notify.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <chrono>

namespace cohort::notify_test {
namespace {

using namespace std::chrono_literals;

Task<> wait_once(Notify& notify, int& passed) {
  co_await notify.wait();
  ++passed;
}

TEST(Notify, a_post_before_the_wait_is_taken_without_suspending) {
  test::VirtualEngine engine;
  Notify notify;
  int passed = 0;
  notify.post();
  engine.run(wait_once(notify, passed));
  EXPECT_EQ(passed, 1);
  EXPECT_EQ(notify.untaken_posts(), 0U);
}

TEST(Notify, a_wait_before_the_post_suspends_until_it) {
  test::VirtualEngine engine;
  Notify notify;
  int passed = 0;
  auto post_later = [&]() -> Task<> {
    co_await engine.sleep_for(5ms);
    EXPECT_EQ(passed, 0);
    notify.post();
  };
  auto both = [&]() -> Task<> { co_await when_all(wait_once(notify, passed), post_later()); };
  engine.run(both());
  EXPECT_EQ(passed, 1);
}

TEST(Notify, counts_up_to_its_limit_and_each_wait_takes_one) {
  test::VirtualEngine engine;
  Notify notify(3);
  for (int i = 0; i < 3; ++i) notify.post();
  int passed = 0;
  auto take_two = [&]() -> Task<> {
    co_await wait_once(notify, passed);
    co_await wait_once(notify, passed);
  };
  engine.run(take_two());
  EXPECT_EQ(passed, 2);
  EXPECT_EQ(notify.untaken_posts(), 1U);
}

TEST(Notify, a_deadline_ends_the_wait_and_the_notify_can_be_used_again) {
  test::VirtualEngine engine;
  Notify notify;
  int passed = 0;
  auto impatient = [&]() -> Task<> { co_await with_deadline(10ms, wait_once(notify, passed)); };
  try {
    engine.run(impatient());
    FAIL() << "the wait ended by itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::DeadlineExceeded);
  }
  notify.post();
  engine.run(wait_once(notify, passed));
  EXPECT_EQ(passed, 1);
}

TEST(Notify, streams_that_answer_each_other_keep_their_order) {
  test::VirtualEngine engine;
  Notify ping;
  Notify pong;
  std::string order;
  auto first = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) {
      order += 'a';
      ping.post();
      co_await pong.wait();
    }
  };
  auto second = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) {
      co_await ping.wait();
      order += 'b';
      pong.post();
    }
  };
  auto both = [&]() -> Task<> { co_await when_all(first(), second()); };
  engine.run(both());
  EXPECT_EQ(order, "ababab");
}

TEST(NotifyDeathTest, one_post_too_many_is_a_bug_of_the_schedule) {
  Notify notify;
  notify.post();
  EXPECT_DEATH(notify.post(), "2 posts that nobody took, at most 1");
}

TEST(NotifyDeathTest, two_waiters_are_a_bug_of_the_schedule) {
  const auto wait_twice = [] {
    test::VirtualEngine engine;
    Notify notify;
    int passed = 0;
    auto both = [&]() -> Task<> { co_await when_all(wait_once(notify, passed), wait_once(notify, passed)); };
    engine.run(both());
  };
  EXPECT_DEATH(wait_twice(), "two coroutines wait for one notify");
}

}  // namespace
}  // namespace cohort::notify_test
