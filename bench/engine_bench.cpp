// SPDX-License-Identifier: Apache-2.0
//
// What the engine itself costs: tasks, hops through the ready queue, joins, timers, messages from other
// threads. One iteration is one operation named by the benchmark; with an argument, see there.
#include <benchmark/benchmark.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/system/processor.h>
#include <cohort/engine/when_all.h>

#include <atomic>
#include <coroutine>
#include <memory>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using cohort::Duration;
using cohort::Engine;
using cohort::EngineOptions;
using cohort::Task;

/// Spins for ever, so that no sleep is measured, unless a benchmark is about sleeping.
EngineOptions spinning() { return {.compute_threads = 1, .spin = Duration(1h)}; }

/// To the end of the ready queue.
struct Yield {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const noexcept { Engine::current().schedule(handle); }
  void await_resume() const noexcept {}
};

/// Runs `body`, which loops over the state, on an engine of its own.
template <class Body>
void run(Body& body, EngineOptions options = spinning()) {
  Engine engine(std::move(options));
  engine.run(body(engine));
}

Task<int> answer(int value) { co_return value; }

Task<int> chain(int depth) {
  if (depth == 1) co_return 1;
  const int below = co_await chain(depth - 1);
  co_return below + 1;
}

Task<int> answer_after_a_hop(int value) {
  const Yield hop;
  co_await hop;
  co_return value;
}

void task_create_await_destroy(benchmark::State& state) {
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const int value = co_await answer(1);
      benchmark::DoNotOptimize(value);
    }
  };
  run(body);
}
BENCHMARK(task_create_await_destroy);

/// One iteration creates, awaits and destroys as many tasks as the argument says, each inside the one before.
void task_chain(benchmark::State& state) {
  const int depth = static_cast<int>(state.range(0));
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const int reached = co_await chain(depth);
      benchmark::DoNotOptimize(reached);
    }
  };
  run(body);
  state.SetItemsProcessed(state.iterations() * depth);
}
BENCHMARK(task_chain)->Arg(16);

/// One hop; the argument is how many coroutines share each turn of the loop, and its polling.
void suspend_resume(benchmark::State& state) {
  const auto others = static_cast<std::size_t>(state.range(0)) - 1;
  bool is_over = false;
  auto hops = [&]() -> Task<> {
    const Yield hop;
    while (!is_over) co_await hop;
  };
  auto body = [&](Engine&) -> Task<> {
    cohort::TaskScope tasks;
    for (std::size_t i = 0; i < others; ++i) tasks.spawn(hops());
    const Yield hop;
    for (auto _ : state) co_await hop;
    is_over = true;
    co_await tasks.join();
  };
  run(body);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(suspend_resume)->Arg(1)->Arg(64);

/// A child that suspends once: its own hop, and the one that hands over to its parent.
void task_that_suspends(benchmark::State& state) {
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const int value = co_await answer_after_a_hop(1);
      benchmark::DoNotOptimize(value);
    }
  };
  run(body);
}
BENCHMARK(task_that_suspends);

void when_all_of_2(benchmark::State& state) {
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const auto values = co_await cohort::when_all(answer(1), answer(2));
      benchmark::DoNotOptimize(std::get<0>(values));
    }
  };
  run(body);
}
BENCHMARK(when_all_of_2);

void when_all_of_2_that_suspend(benchmark::State& state) {
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const auto values = co_await cohort::when_all(answer_after_a_hop(1), answer_after_a_hop(2));
      benchmark::DoNotOptimize(std::get<0>(values));
    }
  };
  run(body);
}
BENCHMARK(when_all_of_2_that_suspend);

void when_all_of_8(benchmark::State& state) {
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const auto values = co_await cohort::when_all(answer(1), answer(2), answer(3), answer(4), answer(5),
                                                    answer(6), answer(7), answer(8));
      benchmark::DoNotOptimize(std::get<0>(values));
    }
  };
  run(body);
}
BENCHMARK(when_all_of_8);

void task_scope_spawn_and_join(benchmark::State& state) {
  auto child = []() -> Task<> { co_return; };
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      cohort::TaskScope tasks;
      tasks.spawn(child());
      co_await tasks.join();
    }
  };
  run(body);
}
BENCHMARK(task_scope_spawn_and_join);

void with_deadline(benchmark::State& state) {
  auto body = [&](Engine&) -> Task<> {
    for (auto _ : state) {
      const int value = co_await cohort::with_deadline(1h, answer(1));
      benchmark::DoNotOptimize(value);
    }
  };
  run(body);
}
BENCHMARK(with_deadline);

class SilentTimer final : public cohort::Timer {
 public:
  ~SilentTimer() override = default;

 private:
  void expire() noexcept override {}
};

/// Arms and disarms a timer that is due before all others; the argument is how many others are armed.
void timer_arm_and_disarm(benchmark::State& state) {
  std::vector<std::unique_ptr<SilentTimer>> others;
  cohort::TimerQueue queue;
  const cohort::TimePoint now{};
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    others.push_back(std::make_unique<SilentTimer>());
    queue.arm(*others.back(), now + 1h + std::chrono::microseconds(i));
  }
  SilentTimer timer;
  for (auto _ : state) {
    queue.arm(timer, now + 1ms);
    queue.disarm(timer);
  }
}
BENCHMARK(timer_arm_and_disarm)->Arg(0)->Arg(1000);

/// A sleep that is over at once: arm, a turn of the loop, expire, resume.
void sleep_for_zero(benchmark::State& state) {
  auto body = [&](Engine& engine) -> Task<> {
    for (auto _ : state) co_await engine.sleep_for(0s);
  };
  run(body);
}
BENCHMARK(sleep_for_zero);

/// To a pool thread and back. Argument 0: the loop spins meanwhile; 1: it sleeps and has to be woken.
void offload_round_trip(benchmark::State& state) {
  auto function = [] { return 1; };
  auto body = [&](Engine& engine) -> Task<> {
    for (auto _ : state) {
      const int value = co_await engine.offload(function);
      benchmark::DoNotOptimize(value);
    }
  };
  EngineOptions options = spinning();
  if (state.range(0) != 0) options.spin = Duration::zero();
  run(body, std::move(options));
}
BENCHMARK(offload_round_trip)->Arg(0)->Arg(1)->UseRealTime();

struct CountedItem final : cohort::InboxItem {
  void deliver() noexcept override { ++delivered; }
  std::int64_t delivered = 0;
};

/// Post and drain on one thread: what the queue and its counters cost.
void inbox_post_and_drain(benchmark::State& state) {
  Engine engine(spinning());
  CountedItem item;
  for (auto _ : state) {
    engine.inbox().post(item);
    engine.inbox().drain();
  }
  benchmark::DoNotOptimize(item.delivered);
}
BENCHMARK(inbox_post_and_drain);

/// A function from the loop to the loop.
void engine_post(benchmark::State& state) {
  int calls = 0;
  auto body = [&](Engine& engine) -> Task<> {
    for (auto _ : state) {
      engine.post([&calls] { ++calls; });
      engine.inbox().drain();
    }
    co_return;
  };
  run(body);
  benchmark::DoNotOptimize(calls);
}
BENCHMARK(engine_post);

/// Post from another thread and wait until the loop has taken it. Argument 0: the loop spins; 1: it sleeps.
void inbox_post_from_a_thread(benchmark::State& state) {
  EngineOptions options = spinning();
  if (state.range(0) != 0) options.spin = Duration::zero();
  std::atomic<Engine*> ready{nullptr};
  std::atomic<bool> is_over{false};
  std::thread loop([&] {
    auto body = [&](Engine& engine) -> Task<> {
      ready = &engine;
      while (!is_over) co_await engine.sleep_for(100ms);
    };
    run(body, std::move(options));
  });
  while (ready.load() == nullptr) std::this_thread::yield();
  std::atomic<std::int64_t> taken{0};
  std::int64_t sent = 0;
  for (auto _ : state) {
    ready.load()->post([&taken] { taken.fetch_add(1, std::memory_order_release); });
    ++sent;
    while (taken.load(std::memory_order_acquire) != sent) cohort::processor::relax();
  }
  is_over = true;
  loop.join();
}
BENCHMARK(inbox_post_from_a_thread)->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
