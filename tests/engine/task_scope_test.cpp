// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/task_scope.h>

#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort::task_scope_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::VirtualEngine;

Task<> wait(Engine& engine, Duration delay) { co_await engine.sleep_for(delay); }

Task<> fail_after(Engine& engine, Duration delay, std::string why) {
  co_await engine.sleep_for(delay);
  throw Error(ErrorKind::LinkFault, why);
}

/// As a Task, so that it can be given a scope and its error asked for.
Task<> join(TaskScope& tasks) { co_await tasks.join(); }

TEST(TaskScope, runs_a_task_until_it_suspends_and_join_waits_for_the_rest) {
  VirtualEngine engine;
  std::vector<std::string> log;
  auto child = [&](std::string name, Duration delay) -> Task<> {
    log.push_back(name + " begins");
    co_await engine.sleep_for(delay);
    log.push_back(name + " ends");
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(child("a", 2ms));
    tasks.spawn(child("b", 1ms));
    log.emplace_back("spawned");
    EXPECT_FALSE(tasks.empty());
    co_await tasks.join();
    EXPECT_TRUE(tasks.empty());
  };
  engine.run(body());
  EXPECT_EQ(log, (std::vector<std::string>{"a begins", "b begins", "spawned", "b ends", "a ends"}));
}

TEST(TaskScope, that_was_never_used_or_is_empty_joins_at_once) {
  VirtualEngine engine;
  const TaskScope unused;
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    co_await tasks.join();
    tasks.spawn(wait(engine, 1ms));
    co_await tasks.join();
    co_await tasks.join();
  };
  engine.run(body());
}

TEST(TaskScope, frees_a_task_as_soon_as_it_ends) {
  VirtualEngine engine;
  const auto watched = std::make_shared<int>(1);
  auto holds = [&engine](std::shared_ptr<int>, Duration delay) -> Task<> {
    if (delay > 0ms) co_await engine.sleep_for(delay);
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(holds(watched, 0ms));
    EXPECT_EQ(watched.use_count(), 1);
    tasks.spawn(wait(engine, 1h));
    tasks.spawn(holds(watched, 1ms));
    EXPECT_EQ(watched.use_count(), 2);
    co_await engine.sleep_for(2ms);
    EXPECT_EQ(watched.use_count(), 1);
    tasks.cancel();
    co_await tasks.join();
  };
  engine.run(body());
}

TEST(TaskScope, accepts_tasks_from_its_own_tasks_while_it_is_joined) {
  VirtualEngine engine;
  int ended = 0;
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    auto grows = [&](auto& self, int generations) -> Task<> {
      co_await engine.sleep_for(1ms);
      if (generations > 0) {
        tasks.spawn(self(self, generations - 1));
        tasks.spawn(self(self, generations - 1));
      }
      ++ended;
    };
    tasks.spawn(grows(grows, 5));
    co_await tasks.join();
  };
  engine.run(body());
  EXPECT_EQ(ended, 63);
}

TEST(TaskScope, first_failure_cancels_the_others_and_join_throws_it) {
  VirtualEngine engine;
  std::string sibling;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    sibling = error->what();
    throw Error(*error);  // no failure of its own
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(waits());
    tasks.spawn(fail_after(engine, 10ms, "cable cut"));
    const auto error = co_await error_of(join(tasks));
    EXPECT_STREQ(error->what(), "LinkFault: cable cut");
  };
  engine.run(body());
  EXPECT_EQ(sibling, "Cancelled: a task beside this one failed");
  EXPECT_EQ(engine.elapsed(), 10ms);
}

TEST(TaskScope, failure_before_the_first_suspension_is_thrown_by_join_not_by_spawn) {
  VirtualEngine engine;
  auto fails = []() -> Task<> {
    throw Error(ErrorKind::LinkFault, "at once");
    co_return;
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(wait(engine, 1h));
    tasks.spawn(fails());
    EXPECT_TRUE(tasks.failure());
    const auto error = co_await error_of(join(tasks));
    EXPECT_STREQ(error->what(), "LinkFault: at once");
    tasks.spawn(fails());
    const auto empty_already = co_await error_of(join(tasks));
    EXPECT_FALSE(empty_already) << "a cancelled scope collects no further failures";
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 0ms);
}

TEST(TaskScope, failure_that_came_before_anybody_joined_is_thrown_once) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(fail_after(engine, 1ms, "early"));
    co_await engine.sleep_for(1s);
    EXPECT_TRUE(tasks.empty());
    const auto first = co_await error_of(join(tasks));
    EXPECT_EQ(kind_of(first), "LinkFault");
    const auto second = co_await error_of(join(tasks));
    EXPECT_EQ(kind_of(second), "no error");
  };
  engine.run(body());
}

TEST(TaskScope, cancel_ends_its_tasks_with_that_cause_and_is_no_failure) {
  VirtualEngine engine;
  std::string cause;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    cause = error->what();
    throw Error(*error);
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(waits());
    tasks.cancel(Error(ErrorKind::Revoked, "rank 3 gave up"));
    EXPECT_FALSE(tasks.empty()) << "cancel() resumes nobody";
    co_await tasks.join();
  };
  engine.run(body());
  EXPECT_EQ(cause, "Revoked: rank 3 gave up");
}

TEST(TaskScope, is_cancelled_with_the_scope_around_it) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    CancelScope around;
    TaskScope tasks(&around);
    tasks.spawn(wait(engine, 1h));
    around.set_deadline(engine, engine.now() + 5s);
    co_await tasks.join();
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 5s);
}

TEST(TaskScope, deadline_of_whoever_joins_ends_the_tasks_with_that_cause_before_the_join) {
  VirtualEngine engine;
  std::string cause;
  std::optional<TaskScope> tasks;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    cause = kind_of(error);
  };
  auto body = [&]() -> Task<> {
    tasks.emplace();
    tasks->spawn(waits());
    const auto error = co_await error_of(with_deadline(5s, join(*tasks)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    EXPECT_TRUE(tasks->empty());
  };
  engine.run(body());
  EXPECT_EQ(cause, "DeadlineExceeded");
  EXPECT_EQ(engine.elapsed(), 5s);
}

TEST(TaskScope, joined_by_a_cancelled_task_ends_its_tasks_first) {
  VirtualEngine engine;
  bool ended = false;
  CancelScope scope;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    EXPECT_EQ(kind_of(error), "Cancelled");
    ended = true;
  };
  auto parent = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(waits());
    scope.cancel();
    const auto error = co_await error_of(join(tasks));
    EXPECT_EQ(kind_of(error), "Cancelled");
    EXPECT_TRUE(ended);
  };
  engine.run(with_scope(scope, parent()));
  EXPECT_TRUE(ended);
}

TEST(TaskScope, can_be_joined_again_after_a_join_was_cancelled) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    tasks.spawn(wait(engine, 1h));
    const auto cancelled = co_await error_of(with_deadline(1s, join(tasks)));
    EXPECT_EQ(kind_of(cancelled), "DeadlineExceeded");
    // The scope of that join is gone by now.
    const auto empty = co_await error_of(join(tasks));
    EXPECT_EQ(kind_of(empty), "no error");
    tasks.spawn(wait(engine, 1h));  // ends at once: the scope was cancelled
    const auto running = co_await error_of(join(tasks));
    EXPECT_EQ(kind_of(running), "no error");
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 1s);
}

TEST(TaskScope, keeps_a_deadline_that_a_task_has_of_its_own) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    CancelScope scope;
    scope.set_deadline(engine, engine.now() + 3s);
    TaskScope tasks;
    tasks.spawn(with_scope(scope, wait(engine, 1h)));
    const auto error = co_await error_of(join(tasks));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 3s);
}

TEST(TaskScope, runs_a_hundred_thousand_tasks_one_after_the_other) {
  VirtualEngine engine;
  int ended = 0;
  auto step = [&]() -> Task<> {
    co_await engine.sleep_for(0ms);
    ++ended;
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    for (int i = 0; i < 100'000; ++i) {
      tasks.spawn(step());
      if (i % 100 == 99) co_await tasks.join();
    }
  };
  engine.run(body());
  EXPECT_EQ(ended, 100'000);
}

TEST(TaskScopeDeathTest, destroyed_with_running_tasks_aborts) {
  VirtualEngine engine;
  EXPECT_DEATH(
      {
        TaskScope tasks;
        tasks.spawn(wait(engine, 1h));
      },
      "a task scope with 1 running tasks was destroyed; co_await its join\\(\\) before it ends");
}

TEST(TaskScopeDeathTest, joined_by_two_at_once_aborts) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    TaskScope joiners;
    tasks.spawn(wait(engine, 1h));
    joiners.spawn(join(tasks));
    co_await tasks.join();
  };
  EXPECT_DEATH(engine.run(body()), "two coroutines wait for one operation");
}

}  // namespace
}  // namespace cohort::task_scope_test
