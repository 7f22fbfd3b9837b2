// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/health.h>
#include <cohort/engine/engine.h>

#include <functional>

namespace cohort {

/// Watches the running collective: reports a stall to everybody, and ends it at its deadline, naming whom it
/// waits for. Threads: the engine's.
class Watchdog final : private Timer {
 public:
  /// `deadline_error` is asked at the deadline: who is missing.
  Watchdog(Engine& engine, Health& health, std::function<Error()> deadline_error)
      : engine_(engine), health_(health), deadline_error_(std::move(deadline_error)) {}

  void begin(Duration timeout);
  void end() noexcept;
  [[nodiscard]] Duration elapsed() const noexcept { return engine_.now() - started_; }

 private:
  void expire() noexcept override;

  Engine& engine_;
  Health& health_;
  const std::function<Error()> deadline_error_;
  TimePoint started_{};
  TimePoint deadline_{};
  bool has_reported_ = false;
};

}  // namespace cohort
