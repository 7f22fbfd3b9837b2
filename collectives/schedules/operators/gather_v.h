// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/gather.h>

namespace cohort {

/// A Gather of blocks that differ. Shape: counts[rank] -> sum of counts at the root.
struct GatherV : Gather {
  static constexpr std::string_view kName = "gather_v";
  static constexpr Counts kCounts = Counts::ranks;

  static GatherV of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    return {Gather::of(of, rank, ranks)};
  }
  [[nodiscard]] GatherV part(std::size_t at, std::size_t bytes) const noexcept {
    return {Gather::part(at, bytes)};
  }
};

}  // namespace cohort
