// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/suite.h>
#include <cohort/collectives/machines/check/task_record.h>

#include <array>
#include <string>
#include <vector>

namespace cohort::check {

/// The one thing that is changed in one task of one rank.
enum class ChangeKind : std::uint8_t { drop, twice, peer, signal, lane, window, shift, shorten, swap };
inline constexpr std::size_t kChangeKinds = 9;
[[nodiscard]] std::string_view to_string(ChangeKind kind) noexcept;

/// A schedule with one change.
struct Mutant {
  ChangeKind kind{};
  TaskRecord task;
  TaskRecord changed;  ///< the task as it is now; of a swap, the one that comes before it now
  std::string text;    ///< "rank 1, stream 2, task 3 (post Ack to rank 3): as DataSignal"
  Fault fault;
};

/// Every single change of every task of the case's first operation: each task dropped, doubled, sent to every
/// other peer, as every other signal, on the next lane, in every other window that it could name, an element
/// before or behind, an element shorter, and in the place of the next task of its stream.
[[nodiscard]] std::vector<Mutant> mutants_of(const Case& one);

/// What became of the mutants of one case.
struct MutantReport {
  std::size_t caught = 0;
  /// Nothing is found wrong, nor is anything different: results, the order in which each is combined, and
  /// costs are those of the schedule itself, in each of kOrdersTried orders of streams.
  std::size_t equivalent = 0;
  std::array<std::size_t, kChangeKinds> equivalent_by_kind{};
  /// Only costs are different, in a case that leaves a remainder or has several pieces: they are not declared
  /// there, and are told of by the case that divides evenly.
  std::size_t costlier = 0;
  std::size_t known = 0;               ///< nothing is found wrong, and it is known what is different
  std::vector<std::string> survivors;  ///< nothing is found wrong, but something is different

  [[nodiscard]] std::size_t mutants() const noexcept {
    return caught + equivalent + costlier + known + survivors.size();
  }
  void add(const MutantReport& other);
};

inline constexpr std::uint64_t kOrdersTried = 4;

/// Checks every mutant of a case that passes itself, or, of a sample, every `stride`-th. Throws
/// InvalidArgument for a case that does not pass.
[[nodiscard]] MutantReport run_mutants(const Case& one, std::size_t stride = 1);

/// The cases whose mutants are worth checking, in place and out of place. Of the filter's: those that divide
/// evenly, so that costs count, with the last rank as the root; and, unless it has counts, those that leave a
/// remainder of one, with root 0, in one piece and in two.
///
/// Without ranks in the filter, with 2 to 5, 7 and 8.
[[nodiscard]] std::vector<Case> cases_for_mutants(CaseFilter filter);

}  // namespace cohort::check
