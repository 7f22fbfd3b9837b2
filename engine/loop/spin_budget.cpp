// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/spin_budget.h>

#include <cohort/engine/tuning.h>

#include <algorithm>

namespace cohort {
namespace {

/// Each sleep that asks for less takes such a part of what is above the least.
constexpr int kFalls = 8;

}  // namespace

void SpinBudget::note_wake(Duration latency) noexcept { learn(tuning::waiting::kWakesToSpin * latency); }

void SpinBudget::note_wait(Duration whole) noexcept { learn(whole); }

void SpinBudget::learn(Duration enough) noexcept {
  if (fixed_) return;
  const Duration fallen = budget_ - (budget_ - kLeast) / kFalls;
  budget_ = enough <= kMost ? std::max(enough, fallen) : fallen;
}

}  // namespace cohort
