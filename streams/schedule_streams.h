// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/streams/fork_join.h>
#include <cohort/streams/local_notify.h>

#include <concepts>
#include <ranges>

namespace cohort {

/// The streams of one rank's schedule: the *main* stream is the schedule's own coroutine; it and its sub
/// streams fork sub streams and join them, and notify each other.
///
/// Streams run concurrently, what one of them awaits runs in order. Bodies are named and outlive the fork.
/// Threads: one engine. Lifetime: outlives the schedule. Nothing is allocated after the first schedule of a
/// kind.
class ScheduleStreams : Immovable {
 public:
  /// A machine without real memory is told of everything; it outlives all streams.
  explicit ScheduleStreams(StreamWatcher* watcher = nullptr) noexcept : watcher_(watcher), forks_(watcher) {}

  /// Runs body(item) for every item, each on a sub stream of its own.
  template <std::ranges::range Items, class Body>
  [[nodiscard]] ForkJoin fork_join(Items&& items, Body& body) {
    return ForkJoin(forks_, [&](ForkJoin& fork) {
      for (auto&& item : items) fork.add(body(item));
    });
  }

  /// Runs different bodies at once, each on a sub stream of its own.
  template <std::invocable<>... Body>
  requires(sizeof...(Body) >= 2) [[nodiscard]] ForkJoin fork_join(Body&... bodies) {
    return ForkJoin(forks_, [&](ForkJoin& fork) { (fork.add(bodies()), ...); });
  }

  /// The same for two tasks.
  [[nodiscard]] ForkJoin fork_join(Task<> first, Task<> second) {
    return ForkJoin(forks_, [&](ForkJoin& fork) {
      fork.add(std::move(first));
      fork.add(std::move(second));
    });
  }

  /// A notify from one stream to another, which may hold `limit` posts that nobody has taken.
  [[nodiscard]] LocalNotify notify(std::uint32_t limit) { return LocalNotify(watcher_, limit); }

 private:
  StreamWatcher* const watcher_;
  detail::ForkPool forks_;
};

}  // namespace cohort
