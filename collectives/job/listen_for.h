// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

#include <algorithm>

namespace cohort {

/// What a rank tells another is there by then, on any way around the world, and so is the end of a
/// connection: what has not been heard by then has not happened.
inline constexpr Duration kNewsTime = std::chrono::milliseconds(250);
/// A question and its answer.
inline constexpr Duration kQuestionTime = 2 * kNewsTime;
/// So long a witness may take: a death that another rank has noticed is none if the witness has not noticed
/// it in its time, and then it is asked and answers.
inline constexpr Duration kWitnessTime = kNewsTime + kQuestionTime;
/// How often to look for what may come from several sides.
inline constexpr Duration kLookInterval = std::chrono::milliseconds(1);

/// What the time between two looks counts for at most: in more than that this process was stopped or its
/// engine busy, and has read nothing of what has come.
inline constexpr int kMostIntervals = 10;

/// Goes on when `is_known()` says so, or after that time, in which the engine has read what came.
template <class IsKnown>
Task<> listen_for(Engine& engine, Duration time, const IsKnown& is_known, Duration interval = kLookInterval) {
  TimePoint last = engine.now();
  for (Duration listened{}; listened < time && !is_known();) {
    co_await engine.sleep_for(interval);
    const TimePoint now = engine.now();
    listened += std::min(now - last, kMostIntervals * interval);
    last = now;
  }
}

}  // namespace cohort
