// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exec.h>

namespace cohort {

/// The same slice of every rank's window, in rank order: the operands of a combination across ranks.
///
/// The list is leased from the Exec: building it allocates nothing after the first collective.
class Placed : Immovable {
 public:
  Placed(Exec& x, const Slice& everywhere) : places_(x.place_lists()) {
    for (Rank rank = 0; rank < x.size(); ++rank) places_.items().push_back({x.rank_of(rank), everywhere});
  }

  /// `bytes` from `at` of each of these.
  Placed(Exec& x, std::span<const PlacedSlice> wholes, std::size_t at, std::size_t bytes)
      : places_(x.place_lists()) {
    for (const PlacedSlice& whole : wholes)
      places_.items().push_back({whole.rank, whole.slice.part(at, bytes)});
  }

  /// That rank's operand is another slice.
  void replace(Rank rank, const Slice& slice) { places_.items()[rank].slice = slice; }
  /// All operands have been received: they lie in `here`'s windows now.
  void bring_home(Rank here) {
    for (PlacedSlice& place : places_.items()) place.rank = here;
  }
  [[nodiscard]] std::span<const PlacedSlice> slices() const noexcept { return places_.items(); }

 private:
  Exec::Lease<PlacedSlice> places_;
};

}  // namespace cohort
