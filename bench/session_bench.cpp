// SPDX-License-Identifier: Apache-2.0
// What a blocking call of a thread costs more than a coroutine's: all_reduce of 8 B between two ranks, both
// in turn.
#include <cohort/bindings/session/session.h>
#include <cohort/collectives/communicator.h>
#include <cohort/engine/engine.h>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

namespace cohort {
namespace {

constexpr int kCalls = 20'000;

CommunicatorOptions options_of(Rank rank, const char* kind) {
  static std::atomic<int> joins{0};
  CommunicatorOptions options;
  options.is_isolated = true;  // as ranks that are processes
  options.join.rank = rank;
  options.join.size = 2;
  options.join.address = fmt::format("unix:cohort-session-bench-{}-{}-{}", ::getpid(), kind, joins++ / 2);
  return options;
}

/// Both ranks' functions, on a thread each.
template <class Function>
void on_two_threads(Function&& function) {
  std::thread other([&] { function(Rank{1}); });
  function(Rank{0});
  other.join();
}

void measure(benchmark::State& state, Rank rank, TimePoint began) {
  if (rank != 0) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  state.SetIterationTime(took.count() / kCalls);
}

void all_reduce_of_coroutine(benchmark::State& state) {
  for (auto _ : state)
    on_two_threads([&](Rank rank) {
      Engine engine;
      auto body = [&]() -> Task<> {
        Communicator comm = co_await Communicator::join(engine, options_of(rank, "coroutine"));
        std::array<float, 2> data{1, 1};
        co_await comm.barrier();
        const TimePoint began = std::chrono::steady_clock::now();
        for (int i = 0; i < kCalls; ++i) co_await comm.all_reduce(data, ReduceOp::max);
        measure(state, rank, began);
        co_await comm.close();
      };
      engine.run(body());
    });
}

void all_reduce_of_session(benchmark::State& state) {
  for (auto _ : state)
    on_two_threads([&](Rank rank) {
      bindings::Session session;
      const auto comm = session.join(options_of(rank, "session"));
      std::array<float, 2> data{1, 1};
      CallArguments arguments{.type = data_type_of<float>()};
      arguments.reduce = ReduceOp::max;
      arguments.in = arguments.out = std::as_writable_bytes(std::span(data));
      const bindings::AnyCall call = bindings::CollectiveCall{operator_of<AllReduce>, arguments};
      comm->call(bindings::CollectiveCall{operator_of<Barrier>});
      const TimePoint began = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) comm->call(call);
      measure(state, rank, began);
      comm->close();
    });
}

BENCHMARK(all_reduce_of_coroutine)->UseManualTime()->Iterations(15);
BENCHMARK(all_reduce_of_session)->UseManualTime()->Iterations(15);

}  // namespace
}  // namespace cohort
