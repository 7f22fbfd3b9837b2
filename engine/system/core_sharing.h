// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/tuning.h>

#include <algorithm>

namespace cohort {

/// How to give a core away to whoever else needs it: by yielding, or by a short sleep. One for each thread.
///
/// Ranks that yield hand a core round quickly. A program that computes keeps what it is given for its whole
/// slice, so that beside one yielding ranks hardly get on. Who sleeps, however briefly, gets the core back as
/// soon as it wakes.
///
/// To time a yield costs a part of it: while none was long, one in kYieldsPerSample is timed.
class CoreSharing {
 public:
  /// Whether somebody lately kept the core, so that sleeping is better.
  [[nodiscard]] bool should_sleep(TimePoint now) const noexcept { return now < sleeps_until_; }
  /// Whether the yield that follows is to be timed.
  [[nodiscard]] bool should_time() noexcept {
    return lost_ != Duration::zero() || ++untimed_ % kYieldsPerSample == 0;
  }
  /// A yield lasted so long. What counts is the share of time that goes by in long ones: ranks that start, or
  /// touch new memory, keep the core for long as well, a few times.
  void note_yield(TimePoint began, TimePoint ended) noexcept {
    lost_ -= std::min(lost_, (ended - noted_) / 2);
    noted_ = ended;
    if (ended - began < kLongYield) return;
    lost_ = std::min(lost_ + (ended - began), kMostRemembered);
    if (lost_ >= kTooMuch) sleeps_until_ = ended + kSleepsFor;
  }

  /// Longer than other ranks that wait or work in small parts take, shorter than a scheduler's slice.
  static constexpr Duration kLongYield = tuning::waiting::kLongYield;
  /// Of long yields, beyond as much time again.
  static constexpr Duration kTooMuch = tuning::waiting::kTooMuchYielded;
  static constexpr Duration kMostRemembered = tuning::waiting::kMostYieldedRemembered;
  /// Then it tries again, and one long yield is enough.
  static constexpr Duration kSleepsFor = tuning::waiting::kSleepsAfterYields;
  static constexpr unsigned kYieldsPerSample = 16;

 private:
  TimePoint sleeps_until_{};
  TimePoint noted_{};
  Duration lost_{0};
  unsigned untimed_ = 0;
};

}  // namespace cohort
