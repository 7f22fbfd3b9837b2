// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/tally.h>

#include <bit>

namespace cohort {

/// How any number of ranks folds onto a power of two of *places*: each is one rank or two neighbours, and
/// those of two are spread evenly. The second of two hands its data to the first and waits for the result.
class Fold {
 public:
  explicit Fold(Rank ranks) noexcept : ranks_(ranks), places_(std::bit_floor(ranks)) {}

  [[nodiscard]] Rank places() const noexcept { return places_; }
  /// The first rank of a place; of the number of places: that of ranks.
  [[nodiscard]] Rank first_rank(Rank place) const noexcept {
    return static_cast<Rank>(std::uint64_t{place} * ranks_ / places_);
  }
  [[nodiscard]] Rank place(Rank rank) const noexcept {
    return static_cast<Rank>(((rank + std::uint64_t{1}) * places_ - 1) / ranks_);
  }
  [[nodiscard]] bool is_second(Rank rank) const noexcept { return first_rank(place(rank)) != rank; }
  /// Of the first rank of a place.
  [[nodiscard]] bool has_second(Rank rank) const noexcept { return rank + 1 < ranks_ && is_second(rank + 1); }

 private:
  Rank ranks_;
  Rank places_;
};

/// What the steps of a schedule on a Fold come to. Ranks count from the root.
class FoldTally {
 public:
  explicit FoldTally(Rank ranks) : tally_(ranks), ranks_(ranks), fold_(ranks) {}

  /// All second ranks to their first ones, or back.
  void fold(Rank units, bool is_combined);
  void unfold(Rank units);
  /// Each place with the one at a distance, both ways.
  void exchange(Rank distance, Rank units, bool is_combined);
  /// Recursive halving, combining, of a slice for each rank; recursive doubling.
  void halve();
  void double_up(bool root_has_all = false);
  /// To the root, slices of more and more places, or back.
  void gather();
  void scatter();

  [[nodiscard]] const Tally& counted() const noexcept { return tally_; }
  [[nodiscard]] Rank places() const noexcept { return fold_.places(); }

 private:
  /// Slices of the range of `distance` places that has this one.
  [[nodiscard]] Rank slices(Rank place, Rank distance) const noexcept;

  Tally tally_;
  Rank ranks_;
  Fold fold_;
};

}  // namespace cohort
