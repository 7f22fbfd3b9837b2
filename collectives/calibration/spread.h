// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <algorithm>
#include <vector>

namespace cohort {

/// How much longer the median of some batches took than the best of them: 1 where nothing disturbed them.
[[nodiscard]] inline double spread_of(std::vector<Duration> batches) {
  std::ranges::sort(batches);
  const auto best = static_cast<double>(std::max(batches.front(), Duration{1}).count());
  return static_cast<double>(batches[batches.size() / 2].count()) / best;
}

/// Above it, what was measured serves the job that measured it and no other: something else ran beside it.
inline constexpr double kMostKeptSpread = 2;

}  // namespace cohort
