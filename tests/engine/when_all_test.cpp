// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/when_all.h>

#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cohort::when_all_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::VirtualEngine;

Task<int> number_after(Engine& engine, Duration delay, int value) {
  co_await engine.sleep_for(delay);
  co_return value;
}

Task<> wait(Engine& engine, Duration delay) { co_await engine.sleep_for(delay); }

Task<> fail_after(Engine& engine, Duration delay, std::string why) {
  co_await engine.sleep_for(delay);
  throw Error(ErrorKind::LinkFault, why);
}

Task<> fail_at_once(std::string why) {
  throw Error(ErrorKind::LinkFault, why);
  co_return;
}

TEST(WhenAll, gives_results_in_the_order_of_the_arguments) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    const auto results =
        co_await when_all(number_after(engine, 2ms, 1), wait(engine, 1ms), number_after(engine, 0ms, 3));
    EXPECT_EQ(std::get<0>(results), 1);
    EXPECT_EQ(std::get<1>(results), std::monostate());
    EXPECT_EQ(std::get<2>(results), 3);
  };
  engine.run(body());
}

TEST(WhenAll, lasts_as_long_as_the_longest) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    co_await when_all(wait(engine, 10ms), wait(engine, 30ms), wait(engine, 20ms));
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 30ms);
}

TEST(WhenAll, of_nothing_and_of_one_works) {
  VirtualEngine engine;
  std::vector<Task<>> none;
  auto body = [&]() -> Task<int> {
    co_await when_all();
    co_await when_all(none);
    const auto one = co_await when_all(number_after(engine, 1ms, 5));
    co_return std::get<0>(one);
  };
  EXPECT_EQ(engine.run(body()), 5);
}

TEST(WhenAll, of_tasks_that_complete_at_once_costs_no_hop) {
  VirtualEngine engine;
  std::vector<std::string> log;
  auto note = [&](std::string what) -> Task<> {
    log.push_back(what);
    co_return;
  };
  auto joins = [&]() -> Task<> {
    co_await when_all(note("a"), note("b"));
    log.emplace_back("joined");
  };
  auto body = [&]() -> Task<> { co_await when_all(joins(), note("c")); };
  engine.run(body());
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b", "joined", "c"}));
}

TEST(WhenAll, first_failure_cancels_the_others_and_is_thrown_when_they_have_ended) {
  VirtualEngine engine;
  std::string sibling;
  auto long_wait = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    sibling = error->what();
    co_await engine.sleep_for(0ms);  // cancelled as well
  };
  auto both = [&]() -> Task<> { co_await when_all(long_wait(), fail_after(engine, 10ms, "cable cut")); };
  auto body = [&]() -> Task<std::string> {
    const auto error = co_await error_of(both());
    co_return std::string(error->what());
  };
  EXPECT_EQ(engine.run(body()), "LinkFault: cable cut");
  EXPECT_EQ(sibling, "Cancelled: a task beside this one failed");
  EXPECT_EQ(engine.elapsed(), 10ms);
}

TEST(WhenAll, waits_for_a_task_that_cannot_stop_at_once) {
  VirtualEngine engine;
  CancelScope elsewhere;
  bool ended = false;
  auto stubborn = [&]() -> Task<> {
    co_await with_scope(elsewhere, wait(engine, 50ms));
    ended = true;
  };
  auto both = [&]() -> Task<> { co_await when_all(stubborn(), fail_after(engine, 10ms, "cable cut")); };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(both());
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_TRUE(ended);
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 50ms);
}

TEST(WhenAll, failure_before_the_first_suspension_reaches_tasks_started_before_and_after) {
  VirtualEngine engine;
  std::vector<std::string> ends;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    ends.push_back(kind_of(error));
  };
  auto all = [&]() -> Task<> { co_await when_all(waits(), fail_at_once("no memory"), waits()); };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(all());
    EXPECT_STREQ(error->what(), "LinkFault: no memory");
  };
  engine.run(body());
  EXPECT_EQ(ends, (std::vector<std::string>{"Cancelled", "Cancelled"}));
  EXPECT_EQ(engine.elapsed(), 0ms);
}

TEST(WhenAll, of_tasks_that_all_fail_at_once_throws_the_first) {
  VirtualEngine engine;
  auto all = [&]() -> Task<> {
    co_await when_all(fail_at_once("one"), fail_at_once("two"), fail_at_once("three"));
  };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(all());
    EXPECT_STREQ(error->what(), "LinkFault: one");
  };
  engine.run(body());
}

TEST(WhenAll, throws_the_failure_that_came_first_in_time) {
  VirtualEngine engine;
  auto all = [&]() -> Task<> {
    co_await when_all(fail_after(engine, 20ms, "late"), fail_after(engine, 10ms, "early"));
  };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(all());
    EXPECT_STREQ(error->what(), "LinkFault: early");
  };
  engine.run(body());
}

TEST(WhenAll, passes_on_exceptions_of_any_type) {
  VirtualEngine engine;
  auto odd = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    throw 42;
  };
  auto body = [&]() -> Task<> { co_await when_all(odd(), wait(engine, 1h)); };
  EXPECT_THROW(engine.run(body()), int);
}

TEST(WhenAll, deadline_around_it_reaches_every_task_as_its_cause) {
  VirtualEngine engine;
  std::vector<std::string> causes;
  auto waits = [&]() -> Task<> {
    const auto error = co_await error_of(wait(engine, 1h));
    causes.push_back(kind_of(error));
    throw Error(*error);
  };
  auto both = [&]() -> Task<> { co_await when_all(waits(), waits()); };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(with_deadline(5s, both()));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  };
  engine.run(body());
  EXPECT_EQ(causes, (std::vector<std::string>{"DeadlineExceeded", "DeadlineExceeded"}));
  EXPECT_EQ(engine.elapsed(), 5s);
}

TEST(WhenAll, keeps_a_deadline_that_one_of_its_tasks_has_of_its_own) {
  VirtualEngine engine;
  CancelScope scope;
  scope.set_deadline(engine, engine.now() + 3s);
  auto both = [&]() -> Task<> { co_await when_all(with_scope(scope, wait(engine, 1h)), wait(engine, 1s)); };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(both());
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 3s);
}

TEST(WhenAll, nests) {
  VirtualEngine engine;
  auto inner = [&](int base) -> Task<int> {
    const auto results =
        co_await when_all(number_after(engine, 2ms, base), number_after(engine, 1ms, base + 1));
    co_return std::get<0>(results) * std::get<1>(results);
  };
  auto body = [&]() -> Task<int> {
    const auto results = co_await when_all(inner(2), inner(5));
    co_return std::get<0>(results) + std::get<1>(results);
  };
  EXPECT_EQ(engine.run(body()), 2 * 3 + 5 * 6);
}

TEST(WhenAll, can_be_given_away_before_it_is_awaited) {
  VirtualEngine engine;
  auto both = [&]() -> Task<int> {
    auto pair = when_all(number_after(engine, 2ms, 7), wait(engine, 1ms));
    auto moved = std::move(pair);
    const auto results = co_await when_all(std::move(moved), number_after(engine, 3ms, 8));
    co_return std::get<0>(std::get<0>(results)) * std::get<1>(results);
  };
  EXPECT_EQ(engine.run(both()), 56);
  EXPECT_EQ(engine.elapsed(), 3ms);
}

TEST(WhenAll, runs_any_number_of_tasks_that_the_caller_keeps) {
  VirtualEngine engine;
  int done = 0;
  auto count = [&](Duration delay) -> Task<> {
    co_await engine.sleep_for(delay);
    ++done;
  };
  auto body = [&]() -> Task<> {
    std::vector<Task<>> tasks;
    for (int i = 0; i < 1000; ++i) tasks.push_back(count(std::chrono::milliseconds(i % 7)));
    co_await when_all(tasks);
  };
  engine.run(body());
  EXPECT_EQ(done, 1000);
}

TEST(WhenAll, of_a_range_cancels_the_rest_when_one_fails) {
  VirtualEngine engine;
  auto all = [&]() -> Task<> {
    std::vector<Task<>> tasks;
    for (int i = 0; i < 10; ++i) tasks.push_back(wait(engine, 1h));
    tasks.push_back(fail_after(engine, 1ms, "tenth"));
    co_await when_all(tasks);
  };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(all());
    EXPECT_STREQ(error->what(), "LinkFault: tenth");
  };
  engine.run(body());
  EXPECT_EQ(engine.elapsed(), 1ms);
}

TEST(WhenAll, destroys_results_that_nobody_takes_and_tasks_that_nobody_awaits) {
  VirtualEngine engine;
  const auto watched = std::make_shared<int>(1);
  auto gives = [&]() -> Task<std::shared_ptr<int>> {
    co_await engine.sleep_for(1ms);
    co_return watched;
  };
  auto holds = [](std::shared_ptr<int>) -> Task<> { co_return; };
  auto both = [&]() -> Task<> { co_await when_all(gives(), fail_after(engine, 2ms, "after the result")); };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(both());
    EXPECT_EQ(kind_of(error), "LinkFault");
  };
  engine.run(body());
  EXPECT_EQ(watched.use_count(), 1);
  { const auto never_awaited = when_all(holds(watched), holds(watched)); }
  EXPECT_EQ(watched.use_count(), 1);
}

}  // namespace
}  // namespace cohort::when_all_test
