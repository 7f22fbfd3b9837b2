// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/engine.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cohort::engine_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::VirtualEngine;

Task<> wait(Engine& engine, Duration delay) { co_await engine.sleep_for(delay); }

Task<> fail(std::string why) {
  throw Error(ErrorKind::LinkFault, why);
  co_return;
}

TEST(Engine, sleeps_exactly_as_long_as_asked) {
  VirtualEngine engine;
  for (const Duration delay : {Duration(1ns), Duration(1ms), Duration(24h)}) {
    const TimePoint before = engine.now();
    engine.run(wait(engine, delay));
    EXPECT_EQ(engine.now() - before, delay);
  }
}

TEST(Engine, sleep_until_a_moment_that_has_passed_ends_in_the_same_moment) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    co_await engine.sleep_until(engine.now() - 1s);
    co_await engine.sleep_for(-1s);
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 0s);
}

TEST(Engine, sleep_of_zero_lets_everything_that_is_ready_run_first) {
  VirtualEngine engine;
  std::vector<std::string> log;
  auto yields = [&](std::string name) -> Task<> {
    for (int i = 0; i < 2; ++i) {
      log.push_back(name);
      co_await engine.sleep_for(0s);
    }
  };
  auto body = [&]() -> Task<> { co_await when_all(yields("a"), yields("b"), yields("c")); };
  engine.run(body());
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b", "c", "a", "b", "c"}));
}

TEST(Engine, sleepers_wake_in_order_of_time) {
  VirtualEngine engine;
  std::vector<int> order;
  auto sleeps = [&](int ms) -> Task<> {
    co_await engine.sleep_for(std::chrono::milliseconds(ms));
    order.push_back(ms);
  };
  auto body = [&]() -> Task<> { co_await when_all(sleeps(3), sleeps(1), sleeps(4), sleeps(2)); };
  engine.run(body());
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4}));
}

TEST(Engine, run_throws_what_the_task_threw_at_once_or_later_and_can_run_again) {
  VirtualEngine engine;
  auto fails_later = [&]() -> Task<int> {
    co_await engine.sleep_for(1s);
    throw std::runtime_error("later");
  };
  EXPECT_THROW(engine.run(fail("at once")), Error);
  EXPECT_THROW(engine.run(fails_later()), std::runtime_error);
  engine.run(wait(engine, 1s));
  EXPECT_EQ(engine.elapsed(), 2s);
}

TEST(Engine, run_ends_only_after_what_runs_in_the_background) {
  VirtualEngine engine;
  bool said_goodbye = false;
  auto goodbye = [&]() -> Task<> {
    co_await engine.sleep_for(2s);
    said_goodbye = true;
  };
  auto body = [&](bool fails) -> Task<int> {
    engine.background().spawn(goodbye());
    if (fails) co_await fail("the task itself");
    co_return 1;
  };
  EXPECT_EQ(engine.run(body(false)), 1);
  EXPECT_TRUE(said_goodbye);
  said_goodbye = false;
  const auto error = error_from([&] { engine.run(body(true)); });
  EXPECT_EQ(kind_of(error), "LinkFault");
  EXPECT_TRUE(said_goodbye);
}

TEST(Engine, run_throws_what_failed_in_the_background_unless_the_task_failed_itself) {
  for (const Duration delay : {Duration(0s), Duration(1s), Duration(3s)}) {
    VirtualEngine engine;
    auto background = [&]() -> Task<> {
      if (delay > 0s) co_await engine.sleep_for(delay);
      co_await fail("in the background");
    };
    auto body = [&]() -> Task<> {
      engine.background().spawn(background());
      co_await engine.sleep_for(2s);
    };
    const auto error = error_from([&] { engine.run(body()); });
    ASSERT_EQ(kind_of(error), "LinkFault");
    EXPECT_EQ(error->message(), "in the background");
    engine.run(wait(engine, 1s));
  }
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    engine.background().spawn(fail("in the background"));
    co_await fail("the task itself");
  };
  const auto error = error_from([&] { engine.run(body()); });
  ASSERT_EQ(kind_of(error), "LinkFault");
  EXPECT_EQ(error->message(), "the task itself");
}

TEST(Engine, a_failure_in_the_background_leaves_other_services_alone) {
  VirtualEngine engine;
  std::vector<std::string> ended;
  auto service = [&](std::string name) -> Task<> {
    co_await engine.sleep_for(2s);
    ended.push_back(std::move(name));
  };
  auto body = [&]() -> Task<> {
    engine.background().spawn(service("spawned before"));
    engine.background().spawn(fail("first"));
    engine.background().spawn(fail("second"));
    engine.background().spawn(service("spawned after"));
    co_return;
  };
  const auto error = error_from([&] { engine.run(body()); });
  ASSERT_EQ(kind_of(error), "LinkFault");
  EXPECT_EQ(error->message(), "first");
  auto later = [&]() -> Task<> {
    engine.background().spawn(service("of a later run"));
    co_return;
  };
  engine.run(later());
  EXPECT_EQ(ended, (std::vector<std::string>{"spawned before", "spawned after", "of a later run"}));
}

TEST(Engine, is_the_threads_own_while_it_lives) {
  std::optional<VirtualEngine> outer(std::in_place);
  EXPECT_EQ(&Engine::current(), &*outer);
  {
    VirtualEngine inner;
    EXPECT_EQ(&Engine::current(), &inner);
  }
  EXPECT_EQ(&Engine::current(), &*outer);
}

TEST(Engine, each_of_two_on_one_thread_runs_its_own_tasks) {
  VirtualEngine first;
  VirtualEngine second;
  auto parent = [](Engine& engine) -> Task<Engine*> {
    co_await wait(engine, 1s);
    co_return &Engine::current();
  };
  EXPECT_EQ(first.run(parent(first)), &first);
  EXPECT_EQ(second.run(parent(second)), &second);
  EXPECT_EQ(&Engine::current(), &second);
}

TEST(Engine, another_may_run_inside_a_task) {
  VirtualEngine outer;
  auto body = [&]() -> Task<> {
    co_await outer.sleep_for(1s);
    {
      VirtualEngine inner;
      inner.run(wait(inner, 5s));
      EXPECT_EQ(inner.elapsed(), 5s);
    }
    co_await wait(outer, 1s);
  };
  outer.run(body());
  EXPECT_EQ(outer.elapsed(), 2s);
}

TEST(Engine, that_cannot_be_made_leaves_no_trace) {
  VirtualEngine outer;
  ::setenv("COHORT_COMPUTE_THREADS", "many", 1);
  const auto error = error_from([] { const Engine refused; });
  ::unsetenv("COHORT_COMPUTE_THREADS");
  EXPECT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_EQ(&Engine::current(), &outer);
}

TEST(Engine, takes_its_spin_budget_and_threads_from_the_environment_unless_told) {
  ::setenv("COHORT_SPIN_US", "7", 1);
  ::setenv("COHORT_COMPUTE_THREADS", "3", 1);
  {
    Engine engine;
    EXPECT_EQ(engine.spin_time(), Duration(7us));
    EXPECT_EQ(engine.compute_pool().threads(), 3U);
    Engine told({.driver = nullptr, .clock = nullptr, .compute_threads = 2, .spin = 9us});
    EXPECT_EQ(told.spin_time(), Duration(9us));
    EXPECT_EQ(told.compute_pool().threads(), 2U);
  }
  ::unsetenv("COHORT_SPIN_US");
  ::unsetenv("COHORT_COMPUTE_THREADS");
}

/// A source whose readiness the test decides.
class TestSource final : public Source {
 public:
  bool poll() noexcept override {
    ++polls;
    return false;
  }
  bool is_waited_for() const noexcept override { return has_waiter; }
  bool arm() noexcept override {
    is_armed = true;
    return refusals == 0 || --refusals == 0;
  }
  void disarm() noexcept override { is_armed = false; }

  int polls = 0;
  int refusals = 0;
  bool is_armed = false;
  bool has_waiter = false;
};

TEST(Engine, what_waits_runs_before_who_lets_it_and_so_does_what_it_brings) {
  VirtualEngine engine;
  std::string order;
  auto brings = [&](char name) -> Task<> {
    order += name;
    co_await engine.sleep_for(0s);
    order += name;
  };
  auto patient = [&]() -> Task<> {
    TaskScope tasks;
    co_await engine.sleep_for(0s);
    tasks.spawn(brings('a'));
    tasks.spawn(brings('b'));
    order += '1';
    co_await engine.let_others_run();
    order += '2';
    co_await tasks.join();
  };
  engine.run(patient());
  EXPECT_EQ(order, "ab1ab2");
}

TEST(Engine, others_that_never_end_do_not_hold_up_who_lets_them_run) {
  VirtualEngine engine;
  bool is_over = false;
  int turns = 0;
  auto busy = [&]() -> Task<> {
    while (!is_over) {
      ++turns;
      co_await engine.sleep_for(0s);
    }
  };
  auto patient = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(busy());
    for (int i = 0; i < 100; ++i) co_await engine.let_others_run();
    is_over = true;
    co_await tasks.join();
  };
  engine.run(patient());
  EXPECT_LE(turns, 100 * 5);
}

TEST(Engine, who_lets_others_run_hears_of_its_cancellation) {
  VirtualEngine engine;
  CancelScope scope;
  auto goes_on = [&]() -> Task<> {
    for (;;) co_await engine.let_others_run();
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    auto cancel = [&]() -> Task<> {
      co_await engine.sleep_for(0s);
      scope.cancel();
    };
    tasks.spawn(cancel());
    bool was_cancelled = false;
    try {
      co_await with_scope(scope, goes_on());
    } catch (const Error& error) {
      was_cancelled = error.kind() == ErrorKind::Cancelled;
    }
    EXPECT_TRUE(was_cancelled);
    co_await tasks.join();
  };
  engine.run(body());
}

/// Time passes with every question.
class AskedClock final : public Clock {
 public:
  explicit AskedClock(Duration step) : step_(step) {}
  [[nodiscard]] TimePoint now() noexcept override { return now_ += step_; }

 private:
  const Duration step_;
  TimePoint now_ = test::VirtualTime::kStart;
};

TEST(Engine, a_turn_is_over_when_it_was_long_and_something_waits) {
  EngineOptions options;
  options.clock = std::make_unique<AskedClock>(60us);
  Engine engine(std::move(options));
  TestSource source;
  engine.add_source(source);
  auto body = [&]() -> Task<> {
    co_await engine.let_others_run();  // the driver has its own beginnings
    EXPECT_FALSE(engine.is_turn_over()) << "its time begins";
    EXPECT_FALSE(engine.is_turn_over()) << "nothing waits";
    source.has_waiter = true;
    EXPECT_TRUE(engine.is_turn_over()) << "for a source";
    source.has_waiter = false;
    EXPECT_FALSE(engine.is_turn_over());
    engine.post([] {});
    EXPECT_TRUE(engine.is_turn_over()) << "in the inbox";
    co_await engine.let_others_run();
    EXPECT_FALSE(engine.is_turn_over()) << "another turn";
    EXPECT_FALSE(engine.is_turn_over()) << "nothing waits";
    CancelScope scope;
    scope.set_deadline(engine, after(engine.now(), 30us));
    EXPECT_TRUE(engine.is_turn_over()) << "a timer is due";
    co_return;
  };
  engine.run(body());
}

TEST(Engine, what_begins_with_a_run_has_a_turn_of_its_own) {
  EngineOptions options;
  options.clock = std::make_unique<AskedClock>(60us);
  Engine engine(std::move(options));
  auto body = [&]() -> Task<> {
    (void)engine.is_turn_over();
    engine.post([] {});
    EXPECT_TRUE(engine.is_turn_over());
    co_return;
  };
  auto next = [&]() -> Task<> {
    engine.post([] {});
    EXPECT_FALSE(engine.is_turn_over()) << "its time begins";
    co_return;
  };
  engine.run(body());
  engine.run(next());
}

/// Each of them moves bytes for 60 us when it is polled.
TEST(Engine, a_turn_ends_between_sources_and_the_next_goes_on_with_the_others) {
  EngineOptions options;
  options.clock = std::make_unique<AskedClock>(30us);
  Engine engine(std::move(options));
  class FindingSource final : public Source {
   public:
    bool poll() noexcept override { return ++polls, true; }
    bool is_waited_for() const noexcept override { return true; }
    bool arm() noexcept override { return false; }
    void disarm() noexcept override {}
    int polls = 0;
  };
  std::array<FindingSource, 8> sources;
  for (FindingSource& source : sources) engine.add_source(source);
  constexpr int kTurns = 40;
  auto body = [&]() -> Task<> {
    for (int turn = 0; turn < kTurns; ++turn) co_await engine.sleep_for(0s);
  };
  engine.run(body());
  for (FindingSource& source : sources) {
    EXPECT_GE(source.polls, 1) << "left out for ever";
    EXPECT_LE(source.polls, kTurns / 2);
    source.unlink();
  }
}

TEST(Engine, polls_its_sources_and_sleeps_only_when_all_of_them_let_it) {
  VirtualEngine engine;
  TestSource willing;
  TestSource busy;
  engine.add_source(willing);
  engine.add_source(busy);
  busy.refusals = 10;
  engine.run(wait(engine, 1s));
  EXPECT_EQ(busy.refusals, 0);
  EXPECT_GE(busy.polls, 10);
  EXPECT_EQ(engine.virtual_driver().sleeps(), 1U);
  EXPECT_FALSE(willing.is_armed);
  EXPECT_FALSE(busy.is_armed);
  willing.unlink();
  const int polls = willing.polls;
  engine.run(wait(engine, 1s));
  EXPECT_EQ(willing.polls, polls) << "a source that left is not polled";
}

TEST(Engine, ten_thousand_sleepers_wake_and_ten_thousand_are_cancelled) {
  VirtualEngine engine;
  int woken = 0;
  int cancelled = 0;
  auto sleeps = [&](Duration delay) -> Task<> {
    const auto error = co_await error_of(wait(engine, delay));
    ++(error ? cancelled : woken);
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    for (int i = 0; i < 20'000; ++i)
      tasks.spawn(sleeps(i % 2 == 0 ? Duration(1s) + std::chrono::microseconds(i) : 1h));
    co_await engine.sleep_for(2s);
    tasks.cancel();
    co_await tasks.join();
  };
  engine.run(body());
  EXPECT_EQ(woken, 10'000);
  EXPECT_EQ(cancelled, 10'000);
  EXPECT_EQ(engine.elapsed(), 2s);
}

TEST(EngineDeathTest, hang_in_virtual_time_aborts) {
  VirtualEngine engine;
  EXPECT_DEATH(engine.run(wait(engine, Duration::max())), "a hang: the loop sleeps for ever");
}

TEST(EngineDeathTest, run_from_its_own_task_aborts) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    engine.run(wait(engine, 1s));
    co_return;
  };
  EXPECT_DEATH(engine.run(body()), "run\\(\\) was called from a task of the same engine");
}

TEST(EngineDeathTest, asking_for_the_current_one_where_there_is_none_aborts) {
  EXPECT_DEATH((void)Engine::current(), "no engine lives on this thread");
}

TEST(EngineDeathTest, destroyed_out_of_order_aborts) {
  EXPECT_DEATH(
      {
        std::optional<VirtualEngine> first(std::in_place);
        VirtualEngine second;
        first.reset();
      },
      "innermost first");
}

}  // namespace
}  // namespace cohort::engine_test
