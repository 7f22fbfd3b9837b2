// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/task.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cohort::task_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::VirtualEngine;

/// Counts its living copies: what is destroyed twice, or never, is not zero at the end.
class Counted {
 public:
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(const Counted& other) : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive_; }

 private:
  int* alive_;
};

/// Suspends with nothing that would ever resume it, as a wait does, but without an operation in flight.
struct Abandoned {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const noexcept {}
};

Task<int> answer() { co_return 42; }

Task<int> answer_later(Engine& engine) {
  co_await engine.sleep_for(1ms);
  co_return 42;
}

Task<> fail(std::string why) {
  throw std::runtime_error(why);
  co_return;
}

TEST(Task, gives_its_result_whether_it_suspended_or_not) {
  VirtualEngine engine;
  EXPECT_EQ(engine.run(answer()), 42);
  EXPECT_EQ(engine.run(answer_later(engine)), 42);
  auto sum = [&]() -> Task<int> {
    const int at_once = co_await answer();
    const int later = co_await answer_later(engine);
    co_return at_once + later;
  };
  EXPECT_EQ(engine.run(sum()), 84);
}

TEST(Task, gives_results_that_cannot_be_copied_or_made_from_nothing) {
  struct OnlyFromInt {
    explicit OnlyFromInt(int from) : value(from) {}
    int value;
  };
  VirtualEngine engine;
  auto movable = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  auto particular = []() -> Task<OnlyFromInt> { co_return OnlyFromInt(8); };
  EXPECT_EQ(*engine.run(movable()), 7);
  EXPECT_EQ(engine.run(particular()).value, 8);
}

TEST(Task, throws_what_its_body_threw_through_every_level) {
  VirtualEngine engine;
  std::vector<int> unwound;
  struct Unwinding {
    ~Unwinding() { levels.push_back(level); }
    std::vector<int>& levels;
    int level;
  };
  auto inner = [&]() -> Task<> {
    const Unwinding level{unwound, 1};
    co_await engine.sleep_for(1ms);
    co_await fail("out of paper");
  };
  auto middle = [&]() -> Task<> {
    const Unwinding level{unwound, 2};
    co_await inner();
  };
  auto outer = [&]() -> Task<std::string> {
    std::string what;
    try {
      co_await middle();
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    co_return what;
  };
  EXPECT_EQ(engine.run(outer()), "out of paper");
  EXPECT_EQ(unwound, (std::vector{1, 2}));
}

TEST(Task, does_not_begin_before_it_is_awaited) {
  VirtualEngine engine;
  int begun = 0;
  auto body = [&]() -> Task<> {
    ++begun;
    co_return;
  };
  { const Task<> never_awaited = body(); }
  EXPECT_EQ(begun, 0);
  Task<> task = body();
  EXPECT_EQ(begun, 0);
  engine.run(std::move(task));
  EXPECT_EQ(begun, 1);
}

TEST(Task, destroys_its_arguments_once) {
  VirtualEngine engine;
  int alive = 0;
  auto takes = [](Counted, Engine* wait_on) -> Task<> {
    if (wait_on != nullptr) co_await wait_on->sleep_for(1ms);
  };
  { const Task<> never_awaited = takes(Counted(alive), nullptr); }
  EXPECT_EQ(alive, 0);
  auto body = [&]() -> Task<> {
    const Counted named(alive);
    co_await takes(named, nullptr);
    co_await takes(named, &engine);
    co_await takes(Counted(alive), &engine);
    EXPECT_EQ(alive, 1);
  };
  engine.run(body());
  EXPECT_EQ(alive, 0);
}

TEST(Task, that_completes_at_once_costs_its_parent_no_hop) {
  VirtualEngine engine;
  std::vector<std::string> log;
  auto first = [&]() -> Task<> {
    log.emplace_back("first begins");
    co_await answer();
    log.emplace_back("first goes on");
  };
  auto second = [&]() -> Task<> {
    log.emplace_back("second");
    co_return;
  };
  auto both = [&]() -> Task<> { co_await when_all(first(), second()); };
  engine.run(both());
  EXPECT_EQ(log, (std::vector<std::string>{"first begins", "first goes on", "second"}));
}

TEST(Task, that_had_suspended_resumes_its_parent_in_a_later_turn_in_order) {
  VirtualEngine engine;
  std::vector<std::string> log;
  auto child = [&](std::string name) -> Task<> {
    co_await engine.sleep_for(1ms);
    log.push_back(name + " ends");
  };
  auto parent = [&](std::string name) -> Task<> {
    co_await child(name);
    log.push_back(name + "'s parent goes on");
  };
  auto both = [&]() -> Task<> { co_await when_all(parent("a"), parent("b")); };
  engine.run(both());
  EXPECT_EQ(log, (std::vector<std::string>{"a ends", "b ends", "a's parent goes on", "b's parent goes on"}));
}

TEST(Task, awaited_a_million_times_in_a_loop_needs_no_stack) {
  VirtualEngine engine;
  auto loop = [&]() -> Task<long> {
    long sum = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      const int value = co_await answer();
      sum += value;
    }
    co_return sum;
  };
  EXPECT_EQ(engine.run(loop()), 42'000'000);
}

TEST(Task, chain_of_a_thousand_that_all_suspended_unwinds_without_stack) {
  VirtualEngine engine;
  struct Chain {
    // The chain is built from its end, so that no level is ever resumed inside another.
    static Task<int> link(Task<int> next) {
      const int depth = co_await next;
      co_return depth + 1;
    }
    static Task<int> end(Engine& engine) {
      co_await engine.sleep_for(1ms);
      co_return 0;
    }
  };
  constexpr int kDepth = 1000;  // entering is nested, and sanitizers make that expensive
  Task<int> chain = Chain::end(engine);
  for (int i = 0; i < kDepth; ++i) chain = Chain::link(std::move(chain));
  EXPECT_EQ(engine.run(std::move(chain)), kDepth);
}

TEST(Task, destroyed_while_suspended_destroys_what_it_awaits) {
  int alive = 0;
  auto inner = [&]() -> Task<> {
    const Counted local(alive);
    const Abandoned wait;
    co_await wait;
  };
  auto outer = [&]() -> Task<> {
    const Counted local(alive);
    co_await inner();
  };
  {
    const Task<> task = outer();
    task.handle().resume();
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Task, assigned_to_destroys_what_it_held) {
  VirtualEngine engine;
  int alive = 0;
  auto body = [](Counted) -> Task<> { co_return; };
  Task<> task = body(Counted(alive));
  EXPECT_EQ(alive, 1);
  task = body(Counted(alive));
  EXPECT_EQ(alive, 1);
  task = Task<>();
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(task);
}

TEST(Task, knows_the_scope_that_it_inherits_from_whoever_awaits_it) {
  VirtualEngine engine;
  CancelScope scope;
  auto inner = [&]() -> Task<CancelScope*> { co_return co_await current_scope(); };
  auto outer = [&]() -> Task<CancelScope*> { co_return co_await inner(); };
  EXPECT_EQ(engine.run(outer()), nullptr);
  EXPECT_EQ(engine.run(with_scope(scope, outer())), &scope);
}

TEST(Task, keeps_over_aligned_locals_aligned) {
  VirtualEngine engine;
  struct alignas(64) Line {
    std::array<char, 64> bytes{};
  };
  auto body = [&]() -> Task<std::uintptr_t> {
    Line line;
    co_await engine.sleep_for(1ms);
    line.bytes[0] = 1;
    co_return reinterpret_cast<std::uintptr_t>(&line);
  };
  EXPECT_EQ(engine.run(body()) % 64, 0U);
}

TEST(TaskDeathTest, destroyed_with_an_operation_in_flight_aborts) {
  VirtualEngine engine;
  EXPECT_DEATH(
      {
        const Task<int> task = answer_later(engine);
        task.handle().resume();
      },
      "a frame was destroyed with an operation in flight");
}

}  // namespace
}  // namespace cohort::task_test
