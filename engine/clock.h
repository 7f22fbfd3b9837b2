// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace cohort {

using Duration = std::chrono::nanoseconds;

/// A moment of the engine's clock. Monotonic; means nothing outside the process, and in a simulation it is
/// virtual.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline constexpr TimePoint kNever = TimePoint::max();

/// Where an engine reads the time. Virtual, so that a simulator can stand in for it.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() noexcept = 0;
};

/// CLOCK_MONOTONIC.
class MonotonicClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() noexcept override { return std::chrono::steady_clock::now(); }
};

/// `from + duration`, where a duration too long to add means never.
[[nodiscard]] constexpr TimePoint after(TimePoint from, Duration duration) noexcept {
  return duration >= kNever - from ? kNever : from + duration;
}

[[nodiscard]] constexpr double in_microseconds(Duration duration) noexcept {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace cohort
