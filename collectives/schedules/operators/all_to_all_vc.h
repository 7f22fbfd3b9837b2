// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/all_to_all.h>

namespace cohort {

/// An AllToAll of blocks that differ: counts[giver * ranks + taker], the same matrix on every rank. Shape:
/// sum of the rank's row -> sum of its column.
struct AllToAllVc : AllToAll {
  static constexpr std::string_view kName = "all_to_all_vc";
  static constexpr Counts kCounts = Counts::pairs;

  static AllToAllVc of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    return {AllToAll::of(of, rank, ranks)};
  }
  [[nodiscard]] AllToAllVc part(std::size_t at, std::size_t bytes) const noexcept {
    return {AllToAll::part(at, bytes)};
  }
};

}  // namespace cohort
