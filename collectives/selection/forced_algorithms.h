// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm_table.h>

#include <array>
#include <string>
#include <string_view>

namespace cohort {

/// Which algorithms a communicator's options or COHORT_ALGO force, by operator.
///
/// `mesh` is for every call that it can run. `all_reduce=mesh/all_gather=ring` is for these operators, and a
/// name among them that stands alone, as in `mesh/all_gather=ring`, for all others. An algorithm on levels
/// may be asked for by these: `all_reduce=level0:mesh;level1:nhr` is `all_reduce=mesh_nhr`.
class ForcedAlgorithms {
 public:
  ForcedAlgorithms() = default;
  /// Throws InvalidArgument for a name that nobody has, or its operator has not, listing those that exist.
  ForcedAlgorithms(std::string_view text, const AlgorithmTable& algorithms);

  /// Empty where none is forced.
  [[nodiscard]] std::string_view of(Operator op) const noexcept { return by_operator_[op.index()]; }

 private:
  std::array<std::string, kOperators> by_operator_;
};

}  // namespace cohort
