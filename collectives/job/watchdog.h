// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

#include <functional>

namespace cohort {

/// Watches the running call: says once for each of its messages that it makes no progress, when it has taken
/// long, twice as long, four times ..., and that its time is over. Threads: the engine's.
class Watchdog final : private Timer {
 public:
  /// Called on the loop.
  struct Listeners {
    std::function<void()> on_stall;
    std::function<void()> on_long_call;
    std::function<void()> on_deadline;
  };
  /// `long_call`: how long a call takes that is long.
  Watchdog(Engine& engine, Duration long_call, Listeners listeners)
      : engine_(engine), long_call_(long_call), listeners_(std::move(listeners)) {}

  /// A call begins, and so does its message, if it is one.
  void begin(Duration timeout);
  /// Another message of the same call. What was said of the one before tells nobody who is missing in this
  /// one.
  void begin_message() noexcept;
  void end() noexcept;
  /// Of the call that runs.
  [[nodiscard]] TimePoint deadline() const noexcept { return deadline_; }
  [[nodiscard]] TimePoint started() const noexcept { return started_; }
  /// How long the call that ran last took.
  [[nodiscard]] Duration elapsed() const noexcept { return ended_ - started_; }

 private:
  void arm() noexcept;
  void expire() noexcept override;

  Engine& engine_;
  const Duration long_call_;
  const Listeners listeners_;
  TimePoint started_{};
  TimePoint stalls_at_{};
  TimePoint is_long_at_{};
  TimePoint deadline_{};
  TimePoint ended_{};
};

}  // namespace cohort
