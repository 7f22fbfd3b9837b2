// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/tuning.h>

#include <optional>

namespace cohort {

/// How long it pays to spin for an answer before sleeping: learnt from how long it takes until who sleeps is
/// resumed.
///
/// Of two who answer each other, one that sleeps answers late by its wake. If the other one spins for less,
/// it sleeps, too, and then its own wake is what makes the first one sleep again, for ever. Who spins for
/// twice a wake is still there when the answer comes.
///
/// The budget rises at once and falls slowly, so that a wake which was fast by chance does not bring that
/// state back. What would take longer than the most that is spun counts as nothing: to spin for a part of it
/// is in vain. One for each engine.
class SpinBudget {
 public:
  /// Enough for a round trip through the kernel on a quiet host, and what is spun where nothing is learnt.
  static constexpr Duration kLeast = tuning::waiting::kLeastSpin;
  /// Covers two slow wakes, and some work.
  static constexpr Duration kMost = tuning::waiting::kMostSpin;

  /// Fixed: nothing is learnt.
  explicit SpinBudget(std::optional<Duration> fixed) noexcept
      : fixed_(fixed), budget_(fixed.value_or(kLeast)) {}

  [[nodiscard]] bool is_fixed() const noexcept { return fixed_.has_value(); }
  /// While somebody waits for what peers bring.
  [[nodiscard]] Duration current() const noexcept { return budget_; }
  /// Else.
  [[nodiscard]] Duration least() const noexcept { return fixed_.value_or(kLeast); }

  /// Who slept was resumed so long after what it slept for had been posted.
  void note_wake(Duration latency) noexcept;
  /// The same where nobody says when that was: a wait that ended in a sleep took so long, from its beginning.
  /// Two waiters that keep each other asleep spend it with two wakes: the peer's, and then the own one.
  void note_wait(Duration whole) noexcept;

 private:
  void learn(Duration enough) noexcept;

  const std::optional<Duration> fixed_;
  Duration budget_;
};

}  // namespace cohort
