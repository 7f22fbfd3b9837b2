// SPDX-License-Identifier: Apache-2.0
// What streams cost: a notify between two coroutines, a fork of sub streams, an item on a stream, an event
// between two streams.
#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>
#include <cohort/notify/event.h>
#include <cohort/notify/notify.h>
#include <cohort/streams/schedule_streams.h>
#include <cohort/streams/stream.h>

#include <benchmark/benchmark.h>

namespace cohort {
namespace {

Task<> answer(Notify& ping, Notify& pong, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    co_await ping.wait();
    pong.post();
  }
}

Task<> ask(Notify& ping, Notify& pong, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    ping.post();
    co_await pong.wait();
  }
}

/// Time per post and wait: a round trip has two.
void notify_post_and_wait(benchmark::State& state) {
  Engine engine;
  constexpr std::size_t kRoundTrips = 5000;
  for (auto iteration : state) {
    Notify ping;
    Notify pong;
    auto both = [&]() -> Task<> {
      co_await when_all(ask(ping, pong, kRoundTrips), answer(ping, pong, kRoundTrips));
    };
    engine.run(both());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(2 * kRoundTrips));
}
BENCHMARK(notify_post_and_wait)->UseRealTime();

Task<> nothing() { co_return; }

/// Time per fork of two sub streams that end at once.
void fork_join_of_2(benchmark::State& state) {
  Engine engine;
  ScheduleStreams streams;
  auto loop = [&]() -> Task<> {
    for (auto iteration : state) co_await streams.fork_join(nothing, nothing);
  };
  engine.run(loop());
}
BENCHMARK(fork_join_of_2);

void stream_item(benchmark::State& state) {
  Engine engine;
  Stream stream(engine);
  constexpr std::size_t kItems = 1000;
  for (auto iteration : state) {
    auto fill = [&]() -> Task<> {
      for (std::size_t i = 0; i < kItems; ++i) stream.enqueue(nothing());
      co_await stream.synchronize();
    };
    engine.run(fill());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kItems));
}
BENCHMARK(stream_item)->UseRealTime();

void event_between_streams(benchmark::State& state) {
  Engine engine;
  Stream first(engine);
  Stream second(engine);
  Event event;
  constexpr std::size_t kEvents = 1000;
  for (auto iteration : state) {
    auto fill = [&]() -> Task<> {
      for (std::size_t i = 0; i < kEvents; ++i) {
        first.record(event);
        second.wait(event);
      }
      co_await first.synchronize();
      co_await second.synchronize();
    };
    engine.run(fill());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kEvents));
}
BENCHMARK(event_between_streams)->UseRealTime();

}  // namespace
}  // namespace cohort
