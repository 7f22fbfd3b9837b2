// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/schedules/algorithm_table.h>

#include <functional>
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
  std::vector<Rank> ranks;  ///< empty: 1 to kMostRanksByDefault, of many not every root
  std::vector<std::size_t>
      counts;  ///< empty: 0, 1, p-1, p, p+1, one at which costs show, one that fills its size class, one
               ///< of several pieces, and with few ranks one that needs more than 32 bits
  std::optional<Rank> root;
  /// Schedules that may ask for a HostPlan run on others than the usual one, too, and who refers, of few
  /// ranks, is anybody.
  bool has_every_plan = true;
};

inline constexpr Rank kMostRanksByDefault = 64;
/// A number of ranks has as many roots, and what a case takes grows with its square. So unless numbers are
/// asked for, every root is checked only of few ranks, and of many where they are about powers of two or have
/// many divisors, which is what schedules depend on; of others the first, the middle and the last.
inline constexpr Rank kRanksOfEveryRoot[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                             13, 14, 15, 16, 17, 24, 31, 32, 33, 63, 64};
/// Elements per rank of the count at which costs show: one piece, and no rounding.
inline constexpr std::size_t kEvenPerRank = 40;

/// Every algorithm that the filter lets through, for every number of ranks, root and count, in place and out
/// of place, with user windows mapped and not, on every HostPlan that makes a difference. Large numbers of
/// ranks come first, so that threads end together.
[[nodiscard]] std::vector<Case> cases(const CaseFilter& filter);

/// A list of cases after another, so that millions need not be in memory at once; an empty one at the end.
using CaseSource = std::function<std::vector<Case>()>;
/// The same cases, those of each number of ranks by themselves. What the filter points to outlives it.
[[nodiscard]] CaseSource source_of(const CaseFilter& filter);
/// One list.
[[nodiscard]] CaseSource source_of(std::vector<Case> list);

/// The same of one algorithm, which need not be in a table and outlives them; the filter's own table,
/// operator and name do not count unless they are set.
[[nodiscard]] std::vector<Case> cases_of(const AnyAlgorithm& algorithm, const CaseFilter& filter = {});

/// Checks one of them.
[[nodiscard]] Report run(const Case& one);

/// What a grid of cases says of an algorithm.
struct GridReport {
  struct Failure {
    std::string what;  ///< the case, as describe() has it
    Report report;
  };

  std::size_t cases = 0;
  std::vector<Failure> failures;

  /// Every case passed, and there was one.
  [[nodiscard]] bool passed() const noexcept { return failures.empty() && cases != 0; }
  /// Each case that failed with its findings; empty if all passed.
  [[nodiscard]] std::string text() const;
};

/// Checks a schedule of one's own as `cohort check --all` does those of the library, on this thread.
[[nodiscard]] GridReport check_all(const AnyAlgorithm& algorithm, const CaseFilter& filter = {});

/// The same case with its message cut into pieces of at most so many bytes, as over TCP, where no piece is
/// larger than a core's cache; nothing within a node, or if it has no schedule.
[[nodiscard]] std::optional<Case> in_pieces(const Case& one, std::size_t piece_bytes);

/// The same case through CCL buffers of so many bytes, which take the message in pieces; only within a
/// node, between private buffers.
[[nodiscard]] std::optional<Case> in_stages(const Case& one, std::size_t buffer_bytes);

/// "all_reduce ring, 5 ranks, 1000 elements of float32, avg, in place".
[[nodiscard]] std::string describe(const Case& one);

}  // namespace cohort::check
