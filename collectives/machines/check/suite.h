// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>

#include <optional>

namespace cohort::check {

/// One case of an algorithm of the library.
struct Case {
  Operator op{};
  AlgorithmId algorithm{};
  CheckOptions options;
};

/// Which cases; what is empty means all of them.
struct CaseFilter {
  std::optional<Operator> op;
  std::optional<AlgorithmId> algorithm;
  std::vector<Rank> ranks;  ///< empty: 2 to 64
  std::vector<std::size_t>
      counts;  ///< empty: 0, 1, p-1, p, p+1, one at which costs show, and one of several pieces
  std::optional<Rank> root;
};

inline constexpr Rank kMostRanksByDefault = 64;
/// Elements per rank of the count at which costs show: one piece, and no rounding.
inline constexpr std::size_t kEvenPerRank = 40;

/// Every algorithm that the filter lets through, for every number of ranks, root and count, in place and out
/// of place, with user windows mapped and not. Large numbers of ranks come first, so that threads end
/// together.
[[nodiscard]] std::vector<Case> cases(const CaseFilter& filter);

/// Checks one of them.
[[nodiscard]] Report run(const Case& one);

/// "all_reduce ring, 5 ranks, 1000 elements of float32, avg, in place".
[[nodiscard]] std::string describe(const Case& one);

}  // namespace cohort::check
