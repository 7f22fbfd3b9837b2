// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/scatter.h>

namespace cohort {

/// A Scatter of blocks that differ. Shape: sum of counts at the root -> counts[rank].
struct ScatterV : Scatter {
  static constexpr std::string_view kName = "scatter_v";
  static constexpr Counts kCounts = Counts::ranks;

  static ScatterV of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    return {Scatter::of(of, rank, ranks)};
  }
  [[nodiscard]] ScatterV part(std::size_t at, std::size_t bytes) const noexcept {
    return {Scatter::part(at, bytes)};
  }
};

}  // namespace cohort
