// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/cancel_scope.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort::cancel_scope_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::VirtualEngine;

Error cause(std::string why) { return Error(ErrorKind::Revoked, std::move(why)); }

Task<> wait(Engine& engine, Duration delay) { co_await engine.sleep_for(delay); }

TEST(CancelScope, ends_every_wait_inside_with_its_cause) {
  VirtualEngine engine;
  CancelScope scope;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    EXPECT_STREQ(error->what(), "Revoked: over");
  };
  auto cancels = [&]() -> Task<> {
    co_await engine.sleep_for(3ms);
    scope.cancel(cause("over"));
  };
  auto body = [&]() -> Task<> {
    co_await when_all(with_scope(scope, waits()), with_scope(scope, waits()), cancels());
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 3ms);
}

TEST(CancelScope, cancel_resumes_nobody_itself) {
  VirtualEngine engine;
  CancelScope scope;
  std::vector<std::string> log;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    log.push_back(kind_of(error));
  };
  auto cancels = [&]() -> Task<> {
    scope.cancel();
    log.emplace_back("cancel returned");
    co_return;
  };
  auto body = [&]() -> Task<> { co_await when_all(with_scope(scope, waits()), cancels()); };
  engine.run(body());
  EXPECT_EQ(log, (std::vector<std::string>{"cancel returned", "Cancelled"}));
}

TEST(CancelScope, first_cause_wins) {
  CancelScope outer;
  CancelScope inner(&outer);
  inner.cancel(cause("first"));
  inner.cancel(cause("second"));
  inner.cancel();
  outer.cancel(cause("third"));
  EXPECT_EQ(inner.cause().message(), "first");
  EXPECT_EQ(outer.cause().message(), "third");
}

TEST(CancelScope, deadline_after_cancel_changes_nothing) {
  VirtualEngine engine;
  CancelScope scope;
  scope.cancel(cause("first"));
  scope.set_deadline(engine, engine.now() + 1s);
  engine.run(wait(engine, 2s));
  EXPECT_EQ(scope.cause().message(), "first");
}

TEST(CancelScope, reaches_scopes_inside_but_not_the_one_around) {
  CancelScope outer;
  CancelScope middle(&outer);
  CancelScope inner(&middle);
  CancelScope beside(&outer);
  middle.cancel(cause("middle"));
  EXPECT_TRUE(inner.is_cancelled());
  EXPECT_EQ(inner.cause().message(), "middle");
  EXPECT_FALSE(outer.is_cancelled());
  EXPECT_FALSE(beside.is_cancelled());
}

TEST(CancelScope, made_inside_a_cancelled_one_is_cancelled_with_its_cause) {
  CancelScope outer;
  outer.cancel(cause("over"));
  const CancelScope inner(&outer);
  ASSERT_TRUE(inner.is_cancelled());
  EXPECT_EQ(inner.cause().message(), "over");
}

TEST(CancelScope, that_has_ended_is_not_reached_any_more) {
  CancelScope outer;
  { const CancelScope inner(&outer); }
  outer.cancel();
}

TEST(CancelScope, wait_that_begins_after_cancel_throws_without_suspending) {
  VirtualEngine engine;
  CancelScope scope;
  auto body = [&]() -> Task<> {
    scope.cancel(cause("over"));
    EXPECT_FALSE(engine.virtual_driver().sleeps());
    const auto error = co_await error_of(wait(engine, 1h));
    EXPECT_STREQ(error->what(), "Revoked: over");
  };
  engine.run(with_scope(scope, body()));
  EXPECT_EQ(engine.virtual_driver().sleeps(), 0U);
}

TEST(CancelScope, wait_that_was_over_before_cancel_keeps_its_result) {
  VirtualEngine engine;
  CancelScope scope;
  std::string end;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1ms));
    end = kind_of(error);
  };
  // Both timers expire in one turn: the wait is over, then the other task, resumed first, cancels its scope.
  auto cancels = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    scope.cancel();
  };
  auto body = [&]() -> Task<> { co_await when_all(cancels(), with_scope(scope, waits())); };
  engine.run(body());
  EXPECT_EQ(end, "no error");
}

TEST(CancelScope, deadline_ends_waits_at_that_moment_and_says_how_long_it_was) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    CancelScope scope;
    scope.set_deadline(engine, engine.now() + 1500ms);
    Task<> inside = with_scope(scope, wait(engine, 1h));
    const auto error = co_await error_of(std::move(inside));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    EXPECT_NE(error->message().find("1.500 s"), std::string_view::npos) << error->what();
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 1500ms);
}

TEST(CancelScope, deadline_can_be_moved_and_taken_back) {
  VirtualEngine engine;
  CancelScope scope;
  const TimePoint start = engine.now();
  scope.set_deadline(engine, start + 1s);
  scope.set_deadline(engine, start + 3s);
  engine.run(wait(engine, 2s));
  EXPECT_FALSE(scope.is_cancelled());
  scope.set_deadline(engine, kNever);
  engine.run(wait(engine, 2s));
  EXPECT_FALSE(scope.is_cancelled());
  scope.set_deadline(engine, start + 5s);
  engine.run(wait(engine, 2s));
  EXPECT_TRUE(scope.is_cancelled());
}

TEST(CancelScope, deadline_that_has_passed_cancels_in_the_next_turn) {
  VirtualEngine engine;
  CancelScope scope;
  scope.set_deadline(engine, engine.now() - 1s);
  EXPECT_FALSE(scope.is_cancelled());
  engine.run(wait(engine, 0s));
  EXPECT_TRUE(scope.is_cancelled());
}

TEST(CancelScope, deadline_may_outlive_the_engine) {
  CancelScope scope;
  {
    VirtualEngine engine;
    scope.set_deadline(engine, engine.now() + 1s);
  }
  EXPECT_FALSE(scope.is_cancelled());
}

TEST(CancelScope, earlier_deadline_wins_whether_inside_or_around) {
  struct Case {
    Duration outer;
    Duration inner;
    Duration expected;
  };
  for (const Case& c : {Case{2s, 5s, 2s}, Case{5s, 2s, 2s}, Case{2s, 2s, 2s}}) {
    VirtualEngine engine;
    auto body = [&]() -> Task<> {
      Task<> inside = with_deadline(c.inner, wait(engine, 1h));
      const auto error = co_await error_of(with_deadline(c.outer, std::move(inside)));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    };
    engine.run(body());
    EXPECT_EQ(engine.elapsed(), c.expected);
  }
}

TEST(CancelScope, inner_deadline_leaves_the_outer_work_running) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(with_deadline(1s, wait(engine, 1h)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    co_await engine.sleep_for(2s);
  };
  engine.run(with_deadline(10s, body()));
  EXPECT_EQ(engine.elapsed(), 3s);
}

TEST(CancelScope, with_deadline_gives_the_result_and_counts_from_the_await) {
  VirtualEngine engine;
  auto result = [&]() -> Task<std::unique_ptr<int>> {
    co_await engine.sleep_for(2s);
    co_return std::make_unique<int>(7);
  };
  auto body = [&]() -> Task<int> {
    Task<std::unique_ptr<int>> task = with_deadline(3s, result());
    co_await engine.sleep_for(1h);
    const auto value = co_await task;
    co_return *value;
  };
  EXPECT_EQ(engine.run(body()), 7);
}

TEST(CancelScope, with_deadline_of_for_ever_never_ends_the_wait) {
  VirtualEngine engine;
  engine.run(with_deadline(Duration::max(), wait(engine, 24h)));
  EXPECT_EQ(engine.elapsed(), 24h);
}

TEST(CancelScope, task_that_cancels_its_own_scope_goes_on_to_its_next_wait) {
  VirtualEngine engine;
  CancelScope scope;
  bool went_on = false;
  auto body = [&]() -> Task<> {
    scope.cancel();
    went_on = true;
    co_await engine.sleep_for(1h);
    ADD_FAILURE() << "the wait should have thrown";
  };
  auto task = [&]() -> Task<> {
    const auto error = co_await error_of(with_scope(scope, body()));
    EXPECT_EQ(kind_of(error), "Cancelled");
  };
  engine.run(task());
  EXPECT_TRUE(went_on);
}

TEST(CancelScope, request_in_flight_ends_only_when_the_driver_has_answered) {
  VirtualEngine engine;
  CancelScope scope;
  IoOperation operation(engine.driver(), {.kind = IoKind::poll});
  auto body = [&]() -> Task<> {
    auto waits = [](IoOperation& request) -> Task<> { co_await request; };
    auto cancels = [&]() -> Task<> {
      scope.cancel();
      EXPECT_TRUE(operation.is_pending()) << "cancel asks, the completion answers";
      co_return;
    };
    auto both = [&]() -> Task<> { co_await when_all(with_scope(scope, waits(operation)), cancels()); };
    const auto error = co_await error_of(both());
    EXPECT_EQ(kind_of(error), "Cancelled");
  };
  engine.run(body());
}

TEST(CancelScope, tells_whether_it_is_cancelled) {
  CancelScope scope;
  EXPECT_FALSE(scope.is_cancelled());
  EXPECT_NO_THROW(scope.throw_if_cancelled());
  scope.cancel();
  EXPECT_TRUE(scope.is_cancelled());
  EXPECT_THROW(scope.throw_if_cancelled(), Error);
}

TEST(CancelScopeDeathTest, destroyed_before_what_runs_inside_aborts) {
  VirtualEngine engine;
  EXPECT_DEATH(
      {
        std::optional<CancelScope> scope(std::in_place);
        const Task<> task = with_scope(*scope, wait(engine, 1h));
        task.handle().resume();
        scope.reset();
      },
      "a cancel scope ended before the work inside it");
}

}  // namespace
}  // namespace cohort::cancel_scope_test
