// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/tuning.h>

#include <algorithm>
#include <atomic>

namespace cohort {

/// Whether it pays, where engines share cores, to give the core away and look again before sleeping: learnt
/// from whether what was waited for came meanwhile.
///
/// The kernel gives a yielded core only to threads of the same group: of one container, and of one session
/// where it groups by sessions (autogroup). Ranks that were started apart keep the core by yielding from
/// those that they wait for, and use up their own claim to it. Who sleeps gives the core to whoever wants it.
///
/// Where it has not paid a few times in a row the engine sleeps at once for some waits, and then tries again;
/// for ever longer until it pays. Only among ranks that are apart: others would keep each other asleep, since
/// each answers late by its wake.
///
/// Threads: one for each. Whether ranks are apart is the process's.
class YieldBudget {
 public:
  [[nodiscard]] static YieldBudget& of_this_thread() noexcept {
    thread_local constinit YieldBudget budget;
    return budget;
  }
  /// Ranks of this machine that this process has met are, or may be, of another group.
  static void expect_ranks_apart(bool are = true) noexcept {
    ranks_are_apart.store(are, std::memory_order_relaxed);
  }

  [[nodiscard]] bool pays() const noexcept { return rests_ == 0; }
  /// What was waited for came while the engine gave its core away.
  void note_answer() noexcept {
    failures_ = 0;
    next_rest_ = kFirstRest;
  }
  /// It did not, or it was not tried: the engine sleeps.
  void note_sleep() noexcept {
    if (rests_ != 0) {
      --rests_;
      return;
    }
    if (!ranks_are_apart.load(std::memory_order_relaxed) || ++failures_ < kMostFailures) return;
    rests_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, kLongestRest);
  }

  static constexpr unsigned kMostFailures = tuning::waiting::kMostFruitlessYields;
  static constexpr unsigned kFirstRest = tuning::waiting::kLeastWaitsAsleep;
  static constexpr unsigned kLongestRest = tuning::waiting::kMostWaitsAsleep;

 private:
  static constinit inline std::atomic<bool> ranks_are_apart = false;

  unsigned failures_ = 0;  ///< since it paid last
  unsigned rests_ = 0;     ///< waits for which the engine still sleeps at once
  unsigned next_rest_ = kFirstRest;
};

}  // namespace cohort
