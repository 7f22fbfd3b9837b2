// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/tuning.h>

#include <algorithm>

namespace cohort {

/// When an engine whose job has other hosts offers its core to whoever else may want it, such as a
/// rank of a host that is a container of this machine: that one may be what it waits for.
///
/// Rarely while nobody takes it, each turn while somebody does for a short time. Where a program keeps it for
/// a whole slice the engine sleeps instead, for ever longer: were it to spin, it would be such a program to
/// the others. Threads: the engine's.
class CoreOffers {
 public:
  /// Whether to sleep.
  [[nodiscard]] bool is_core_taken(TimePoint now) const noexcept { return now < taken_until_; }
  /// Asked once in each turn of a wait.
  [[nodiscard]] bool is_due() noexcept {
    return is_wanted_ || ++turns_ % tuning::waiting::kTurnsBetweenOffers == 0;
  }
  /// The core was given away and came back.
  void note(TimePoint began, TimePoint ended) noexcept {
    const Duration away = ended - began;
    const bool was_kept = away >= tuning::waiting::kLongYield;
    is_wanted_ = !was_kept && away >= tuning::waiting::kShortYield;
    if (was_kept) taken_until_ = ended + taken_for_;
    const Duration next = was_kept ? 2 * taken_for_ : Duration(tuning::waiting::kCoreTakenFor);
    taken_for_ = std::min(next, Duration(tuning::waiting::kMostTakenFor));
  }

 private:
  unsigned turns_ = 0;
  bool is_wanted_ = false;
  TimePoint taken_until_{};
  Duration taken_for_ = tuning::waiting::kCoreTakenFor;
};

}  // namespace cohort
