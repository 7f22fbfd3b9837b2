// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/exec.h>

namespace cohort {

/// The same slice of every rank's window, in rank order: the operands of a combination across ranks.
///
/// The list is leased from the Exec: building it allocates nothing after the first collective.
class Placed : Immovable {
 public:
  Placed(Exec& x, const Slice& everywhere);

  /// `bytes` from `at` of each of these.
  Placed(Exec& x, std::span<const PlacedSlice> wholes, std::size_t at, std::size_t bytes);
  ~Placed();

  /// That rank's operand is another slice.
  void replace(Rank rank, const Slice& slice) { places_[rank].slice = slice; }
  /// All operands have been received: they lie in `here`'s windows now.
  void bring_home(Rank here) {
    for (PlacedSlice& place : places_) place.rank = here;
  }
  [[nodiscard]] std::span<const PlacedSlice> slices() const noexcept { return places_; }

 private:
  Exec& x_;
  std::vector<PlacedSlice> places_;
};

}  // namespace cohort
