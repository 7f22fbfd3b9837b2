// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/tally.h>

#include <array>
#include <bit>
#include <span>

namespace cohort {

/// How every rank comes to have a slice of each other rank in ceil(log2 p) rounds, for every number of ranks
/// p, with the fewest bytes: in a round of distance d each rank passes all that it has to the rank d ahead,
/// but for what comes from so far behind that it would arrive where it began.
///
/// Nearest first, distances 1, 2, 4, ...: Bruck's concatenation (Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE
/// TPDS 8(11), 1997), where the largest message goes farthest. Farthest first, distances ..., 4, 2, 1: the
/// largest message goes to the next rank, which suits networks that taper (compare PAT, arXiv 2506.20252).
///
/// Run backwards in time and combining, either is a reduce_scatter (compare Traeff, arXiv 2410.14234).
///
/// A slice's *way* is the distance from its owner to the rank that has it. A rank keeps slices in *places*,
/// in the order in which they come, which is the same on all ranks. So what comes in a round fills one run of
/// places, and what goes out is one run or two, for every p.
class Dissemination {
 public:
  enum class Order : std::uint8_t { nearest_first, farthest_first };
  /// Of 65536 ranks. It lies in the frames of schedules, which are recycled up to a size.
  static constexpr Rank kMostRounds = 16;

  Dissemination(Order order, Rank ranks) noexcept;

  struct Round {
    Rank distance = 0;
    Rank held = 0;         ///< slices that a rank has before it, in places 0 to held - 1
    Rank farthest_at = 0;  ///< the place of the one with the longest way; only farthest first
  };
  [[nodiscard]] std::span<const Round> rounds() const noexcept { return std::span(rounds_).first(count_); }
  [[nodiscard]] const Round& round(Rank index) const noexcept { return rounds_[index]; }
  [[nodiscard]] Rank round_count() const noexcept { return count_; }

  struct Run {
    Rank begin = 0;
    Rank count = 0;
  };
  struct Runs {
    Run first;
    Run second;  ///< empty where one is enough

    [[nodiscard]] Rank slices() const noexcept { return first.count + second.count; }
    [[nodiscard]] Rank parts() const noexcept { return second.count == 0 ? 1 : 2; }
  };
  /// The places of what a rank passes on if it has `reach` to go yet: all whose way stays below p with it.
  /// Where all ranks get all, that is the round's own distance.
  [[nodiscard]] Runs sent(const Round& round, Rank reach) const noexcept;
  [[nodiscard]] Runs sent(const Round& round) const noexcept { return sent(round, round.distance); }
  /// The places in which these arrive.
  [[nodiscard]] Runs received(const Round& round, Rank reach) const noexcept;
  [[nodiscard]] Runs received(const Round& round) const noexcept { return received(round, round.distance); }

  /// The way of the slice in a place.
  [[nodiscard]] Rank way_of(Rank place) const noexcept;
  /// That of the slice in the next place, where there is one: for those who go through all, at the price of a
  /// few instructions each.
  [[nodiscard]] Rank way_after(Rank way) const noexcept {
    if (order_ == Order::nearest_first) return way + 1;
    // Each round adds what is half as far as what was added before, behind all that was there: ways in the
    // order of their digits read from the last to the first.
    const Rank farthest = rounds_.front().distance;
    if (way + farthest < ranks_) return way + farthest;
    const Rank nearer = way & (farthest - 1);
    const Rank digit = std::bit_floor(~nearer & (farthest - 1));
    return (nearer & (digit - 1)) | digit;
  }

  /// Whether what has such a way to go left its rank in an earlier round.
  [[nodiscard]] bool has_left(const Round& round, Rank way) const noexcept {
    const Rank up_to_it = 2 * round.distance - 1;
    return (order_ == Order::nearest_first ? way & (round.distance - 1) : way & ~up_to_it) != 0;
  }

  /// One phase in which every rank gets a slice of that size from each other one.
  [[nodiscard]] Cost cost_of_phase(double slice_bytes) const noexcept;

 private:
  [[nodiscard]] Rank place_of(Rank way) const noexcept;

  Order order_;
  Rank ranks_;
  Rank count_ = 0;
  std::array<Round, kMostRounds> rounds_{};
};

/// A scatter from a root and a phase for all; a phase for all, combining, and a gather to a root. In slices.
[[nodiscard]] const Tally::Figures& figures_of_scatter_and_spread(Dissemination::Order order, Rank ranks);
[[nodiscard]] const Tally::Figures& figures_of_combine_and_gather(Dissemination::Order order, Rank ranks);

}  // namespace cohort
