// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

namespace cohort {

/// How to give a core away to whoever else needs it: by yielding, or by a short sleep.
///
/// Ranks that yield hand a core round within microseconds. A program that computes keeps what it is given for
/// its whole slice, milliseconds, so that beside one yielding ranks hardly get on: 8 ranks on 2 cores beside
/// two busy loops took 46 s for what takes 0.6 s alone, and 4 s with short sleeps. Who sleeps, however
/// briefly, gets the core back as soon as it wakes. One for each thread.
class CoreSharing {
 public:
  /// Whether somebody lately kept the core, so that sleeping is better.
  [[nodiscard]] bool should_sleep(TimePoint now) const noexcept { return now < sleeps_until_; }
  /// A yield lasted so long.
  void note_yield(TimePoint began, TimePoint ended) noexcept {
    if (ended - began >= kLongYield) sleeps_until_ = ended + kSleepsFor;
  }

  /// Longer than other ranks that wait or work in small parts take, shorter than a scheduler's slice.
  static constexpr Duration kLongYield = std::chrono::milliseconds(1);
  /// Then it tries again.
  static constexpr Duration kSleepsFor = std::chrono::milliseconds(5);

 private:
  TimePoint sleeps_until_{};
};

}  // namespace cohort
