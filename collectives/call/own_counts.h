// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>

#include <vector>

namespace cohort {

/// How ranks that know only what each of them gives and gets come to know what all do: they tell each other
/// both, once, and so all find the same disagreement, before any data moves. Kept for the next call, so that
/// it allocates nothing.
class OwnCounts {
 public:
  // Both calls are kept until the next one: what runs them refers to them.

  /// The call that tells: an all_gather of this rank's counts.
  [[nodiscard]] Call& tell(const Call& call, Rank rank, Rank ranks);
  /// All have told: the call with what each rank gives to each. Throws Mismatch, naming the first two ranks
  /// that do not mean the same, and both numbers.
  [[nodiscard]] Call& complete(const Call& call, Rank rank, Rank ranks);

 private:
  void take_matrix(Rank ranks);

  Call telling_{operator_of<AllGather>};
  Call whole_{operator_of<AllToAllVc>};
  std::vector<std::size_t> mine_;
  std::vector<std::size_t> told_;
  std::vector<std::size_t> matrix_;
};

}  // namespace cohort
