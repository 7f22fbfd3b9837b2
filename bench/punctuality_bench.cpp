// SPDX-License-Identifier: Apache-2.0
// How punctual everything else on an engine is while collectives run on it, and what that costs them:
// all_reduces of shared buffers by two ranks, each an engine on a thread of its own. The argument is the
// bytes of each.
#include <cohort/collectives/run.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/system/affinity.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr Rank kRanks = 2;
constexpr Duration kMeasured = 1s;
/// Between two questions of a kind: so seldom that they are no load.
constexpr Duration kPause = 300us;

/// Calls between two looks at the clock, which cost more than a small call: fewer of those that take longer.
std::int64_t batch_of(std::size_t bytes) { return bytes < 4096 ? 256 : bytes < (1U << 20) ? 16 : 1; }

double percentile(std::vector<double>& values, std::size_t percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, values.size() * percent / 100)];
}

double us_since(TimePoint moment, Engine& engine) { return Microseconds(engine.now() - moment).count(); }

/// How late everything came, in microseconds.
struct Lateness {
  std::vector<double> timers;
  std::vector<double> deadlines;
  std::vector<double> cancellations;
};

Task<> watch_timers(Engine& engine, const bool& is_over, std::vector<double>& late) {
  while (!is_over) {
    const TimePoint due = engine.now() + kPause;
    co_await engine.sleep_until(due);
    late.push_back(us_since(due, engine));
  }
}

Task<> wait_for_ever(Engine& engine) { co_await engine.sleep_until(kNever); }

Task<> watch_deadlines(Engine& engine, const bool& is_over, std::vector<double>& late) {
  while (!is_over) {
    const TimePoint due = engine.now() + kPause;
    try {
      co_await with_deadline(kPause, wait_for_ever(engine));
    } catch (const Error&) {
      late.push_back(us_since(due, engine));
    }
  }
}

Task<> hear_of_the_end(Engine& engine, const TimePoint& cancelled_at, std::vector<double>& late) {
  try {
    co_await engine.sleep_until(kNever);
  } catch (const Error&) {
    late.push_back(us_since(cancelled_at, engine));
  }
}

Task<> watch_cancellations(Engine& engine, const bool& is_over, std::vector<double>& late) {
  while (!is_over) {
    TaskScope scope;
    TimePoint cancelled_at{};
    scope.spawn(hear_of_the_end(engine, cancelled_at, late));
    co_await engine.sleep_for(kPause);
    cancelled_at = engine.now();
    scope.cancel();
    co_await scope.join();
  }
}

void bind(Rank rank) {
  static const std::vector<unsigned> processors = affinity::usable_processors();
  affinity::bind_thread(processors[rank % processors.size()]);
}

/// What the ranks of a benchmark do, all the same.
class Job {
 public:
  Job(Communicator& comm, std::size_t bytes)
      : comm_(comm),
        bytes_(bytes),
        data_(comm.allocate<float>(std::max(bytes, sizeof(float)) / sizeof(float))) {
    bind(comm.rank());
  }

  Task<> call(std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i) co_await comm_.all_reduce(data_, ReduceOp::max);
  }
  /// Until rank 0 says that it was enough; how many calls.
  Task<std::int64_t> call_for(Duration duration) {
    const TimePoint end = comm_.engine().now() + duration;
    const std::int64_t batch = batch_of(bytes_);
    std::int64_t calls = 0;
    std::array<std::int32_t, 1> goes_on = {1};
    while (goes_on[0] != 0) {
      co_await call(batch);
      calls += batch;
      goes_on[0] = comm_.engine().now() < end ? 1 : 0;
      co_await comm_.broadcast(goes_on, 0);
    }
    co_return calls;
  }

 private:
  Communicator& comm_;
  const std::size_t bytes_;
  SharedBuffer<float> data_;
};

/// Of timers, deadlines and cancellations on the engine of rank 0; the time is that of a collective
/// meanwhile.
void lateness_while_all_reduce(benchmark::State& state) {
  Lateness late;
  std::int64_t calls = 0;
  const auto take_part = [&](Communicator& comm) -> Task<> {
    Job job(comm, static_cast<std::size_t>(state.range(0)));
    bool is_over = false;
    TaskScope others;
    if (comm.rank() == 0) {
      others.spawn(watch_timers(comm.engine(), is_over, late.timers));
      others.spawn(watch_deadlines(comm.engine(), is_over, late.deadlines));
      others.spawn(watch_cancellations(comm.engine(), is_over, late.cancellations));
    }
    const std::int64_t done = co_await job.call_for(kMeasured);
    if (comm.rank() == 0) calls = done;
    is_over = true;
    co_await others.join();
  };
  for ([[maybe_unused]] auto iteration : state) {
    if (run_threads(kRanks, take_part) != 0) return state.SkipWithError("the ranks failed");
    state.SetIterationTime(std::chrono::duration<double>(kMeasured).count() / static_cast<double>(calls));
  }
  const auto tell = [&](const std::string& what, std::vector<double>& values) {
    state.counters[what + "_p50_us"] = percentile(values, 50);
    state.counters[what + "_p99_us"] = percentile(values, 99);
  };
  tell("timer", late.timers);
  tell("deadline", late.deadlines);
  tell("cancel", late.cancellations);
}

Task<> want_every_turn(Engine& engine, const bool& is_over) {
  while (!is_over) co_await engine.sleep_for(0s);
}

/// A collective alone on its engines, and beside a coroutine on each that wants every turn of the loop: of
/// rounds that alternate the fast ones, which other programs leave alone, and by how much the second is
/// slower.
void all_reduce_beside_others(benchmark::State& state) {
  constexpr int kRounds = 40;
  constexpr std::size_t kFastPercent = 10;
  constexpr Duration kRound = 15ms;
  std::array<std::vector<double>, 2> us_per_call;
  const auto take_part = [&](Communicator& comm) -> Task<> {
    Job job(comm, static_cast<std::size_t>(state.range(0)));
    const std::int64_t calls = co_await job.call_for(kRound);  // as many on every rank
    for (int round = 0; round < 2 * kRounds; ++round) {
      const bool is_beside = round % 2 != 0;
      bool is_over = false;
      TaskScope others;
      if (is_beside) others.spawn(want_every_turn(comm.engine(), is_over));
      co_await comm.barrier();
      const TimePoint begin = comm.engine().now();
      co_await job.call(calls);
      const double us = us_since(begin, comm.engine()) / static_cast<double>(calls);
      if (comm.rank() == 0) us_per_call[is_beside ? 1 : 0].push_back(us);
      is_over = true;
      co_await others.join();
    }
  };
  for ([[maybe_unused]] auto iteration : state) {
    if (run_threads(kRanks, take_part) != 0) return state.SkipWithError("the ranks failed");
    state.SetIterationTime(percentile(us_per_call[0], kFastPercent) / 1e6);
  }
  const double alone = percentile(us_per_call[0], kFastPercent);
  const double beside = percentile(us_per_call[1], kFastPercent);
  state.counters["alone_us"] = alone;
  state.counters["beside_us"] = beside;
  state.counters["slower_percent"] = (beside / alone - 1) * 100;
}

void arguments(benchmark::internal::Benchmark* of) {
  of->Arg(8)->Arg(64 << 10)->Arg(16 << 20)->ArgName("bytes")->Iterations(1)->UseManualTime();
}
BENCHMARK(lateness_while_all_reduce)->Apply(arguments);
BENCHMARK(all_reduce_beside_others)->Apply(arguments);

}  // namespace
}  // namespace cohort
