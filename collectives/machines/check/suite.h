// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/schedule/algorithm_table.h>

#include <optional>

namespace cohort::check {

/// One case of an algorithm, which outlives it.
struct Case {
  const AnyAlgorithm* algorithm = nullptr;
  CheckOptions options;

  [[nodiscard]] Operator op() const noexcept { return algorithm->op(); }
};

/// Which cases; what is empty means all of them.
struct CaseFilter {
  const AlgorithmTable* algorithms = nullptr;  ///< null: those of the library
  std::optional<Operator> op;
  std::string_view algorithm;
  std::vector<Rank> ranks;  ///< empty: 1 to 64
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
