// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/net/slice.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <vector>

namespace cohort::check {

/// Where a window lies: several windows may share one allocation, as in place.
struct WindowPlace {
  std::size_t allocation = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Bytes that a rank contributes, or that its result must have.
struct Stretch {
  Slice where;
  bool is_combined = false;  ///< of ranks [of, end); otherwise of `of` alone
  Rank of = 0;
  Rank end = 1;
  std::size_t from = 0;  ///< the first byte of the contribution
};

/// Bytes of an allocation that the caller gives and has again, unwritten.
struct Kept {
  std::size_t allocation = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// One rank's share of a case.
struct RankPlan {
  std::array<WindowPlace, kWindows> windows;
  std::array<WindowPlace, 2> slots;      ///< of odd and of even operations
  std::vector<std::size_t> allocations;  ///< their sizes
  std::vector<Stretch> gives;            ///< before each operation
  std::vector<Stretch> gets;             ///< after it
  std::vector<Kept> kept;
  Rank average_over = 0;  ///< whose contributions its combined results have; 0: it gets none
};

/// What a machine has to know of a case, whatever the operator.
struct Plan {
  Operator op;
  Rank ranks = 0;
  bool is_mapped_group = false;  ///< the ranks meet at the start and may use phase()
  bool meets_with_data = false;  ///< and that is the schedule's first round
  std::vector<bool> refers;      ///< ranks whose inputs are read, and results stored, where they lie
  bool has_levels = false;       ///< and so the schedule may ask for hosts
  bool goes_ahead = false;       ///< a rank meets those alone whom its result depends on
  bool empty_messages_order = false;
  std::size_t block_bytes = 0;  ///< of recv, where blocks of it may lie apart
  HostPlan host;                ///< of the first operation
  Combine combine;              ///< that the call asks for
  bool is_averaged = false;
  bool combines = false;               ///< results are combinations
  ReductionOrder order{};              ///< that the algorithm says it has
  bool has_parts = false;              ///< of some ranks only, as in a scan
  bool has_result_everywhere = false;  ///< the same result on every rank: the same bits, too
  Needs needs;
  std::size_t ccl_bytes = 0;
  std::uint32_t untaken_posts = 1;  ///< limit of a signal: 1 is a flag
  bool finds_waste = true;          ///< steps whose effect nobody needs
  bool tags_signals = true;         ///< links tell those of one operation from those of the next
  bool is_eager = false;            ///< links buffer whatever is sent
  std::uint64_t seed = 0;           ///< of the order in which streams are resumed; 0: first in, first out
  std::vector<RankPlan> shares;
  Rank root = 0;
  std::uint64_t staged_by_each = 1;
  Hosts hosts;

  /// Whom a rank waits for as it meets, if not for all.
  [[nodiscard]] bool awaits(Rank rank, Rank other) const noexcept { return op.needs(rank, other, root); }
};

/// The plan of a case: windows, and by the operator's definition what each rank gives and gets. `piece` is
/// what a run of the schedule handles.
[[nodiscard]] Plan plan_of(const AnyAlgorithm& algorithm, const CheckOptions& options, std::size_t piece);

}  // namespace cohort::check
