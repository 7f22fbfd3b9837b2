// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

namespace cohort {

/// What a rank tells another is there by then, on any way around the world, and so is the end of a
/// connection: what has not been heard by then has not happened.
inline constexpr Duration kNewsTime = std::chrono::milliseconds(250);
/// A question and its answer.
inline constexpr Duration kQuestionTime = 2 * kNewsTime;
/// How often to look for what may come from several sides.
inline constexpr Duration kLookInterval = std::chrono::milliseconds(1);

/// Goes on when `is_known()` says so, or after that time. Looks now and then rather than sleep in one: an
/// engine that does something else meanwhile reads nothing.
template <class IsKnown>
Task<> listen_for(Engine& engine, Duration time, const IsKnown& is_known) {
  const TimePoint until = engine.now() + time;
  while (engine.now() < until && !is_known()) co_await engine.sleep_for(kLookInterval);
}

}  // namespace cohort
