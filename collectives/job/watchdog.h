// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

#include <functional>

namespace cohort {

/// Watches the running call: says once for each of its messages that it makes no progress, and that the time
/// of the call is over. Threads: the engine's.
class Watchdog final : private Timer {
 public:
  /// Both are called on the loop.
  Watchdog(Engine& engine, std::function<void()> on_stall, std::function<void()> on_deadline)
      : engine_(engine), on_stall_(std::move(on_stall)), on_deadline_(std::move(on_deadline)) {}

  /// A call begins, and so does its message, if it is one.
  void begin(Duration timeout);
  /// Another message of the same call. What was said of the one before tells nobody who is missing in this
  /// one.
  void begin_message() noexcept;
  void end() noexcept;
  /// Of the call that runs.
  [[nodiscard]] TimePoint deadline() const noexcept { return deadline_; }
  /// How long the call that ran last took.
  [[nodiscard]] Duration elapsed() const noexcept { return ended_ - started_; }

 private:
  void expire() noexcept override;

  Engine& engine_;
  const std::function<void()> on_stall_;
  const std::function<void()> on_deadline_;
  TimePoint started_{};
  TimePoint deadline_{};
  TimePoint ended_{};
};

}  // namespace cohort
