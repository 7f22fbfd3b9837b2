// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>

#include <algorithm>
#include <bit>

namespace cohort {

/// The binomial tree over all ranks: what hangs below a rank are the ranks that follow it, as many as the
/// lowest set bit of its place says.
///
/// Data goes up it and down again with 2(p-1) messages, the fewest there are: what matters where ranks share
/// cores, for then the messages of all of them add up. Places count from the root; with rank 0 as the root,
/// the ranks below a rank are a range in rank order.
///
/// `for (Rank distance = 1; tree.has_child(distance); distance *= 2) ... tree.child(distance)` visits the
/// children, smallest subtree first.
class Tree {
 public:
  explicit Tree(const Exec& x, Rank root = 0) noexcept
      : size_(x.size()), root_(root), place_((x.rank() + x.size() - root) % x.size()) {}

  [[nodiscard]] bool is_root() const noexcept { return place_ == 0; }
  [[nodiscard]] Rank parent() const noexcept { return rank_at(place_ & (place_ - 1)); }
  /// The subtree `distance` below: a power of two.
  [[nodiscard]] bool has_child(Rank distance) const noexcept {
    return distance < reach() && place_ + distance < size_;
  }
  [[nodiscard]] Rank child(Rank distance) const noexcept { return rank_at(place_ + distance); }
  /// How many ranks that child and all below it are.
  [[nodiscard]] Rank ranks_below(Rank distance) const noexcept {
    return std::min(distance, size_ - place_ - distance);
  }
  /// How many this rank and all below it are.
  [[nodiscard]] Rank ranks_here() const noexcept { return std::min(reach(), size_ - place_); }
  /// Above the distance of any child of any rank: loops downwards start at half of it.
  [[nodiscard]] Rank widest() const noexcept { return std::bit_ceil(size_); }

  /// What a tree over so many ranks comes to, for costs.
  struct Figures {
    explicit Figures(Rank of_ranks);

    Rank ranks;
    Rank children;             ///< of the root
    Rank height;               ///< messages that follow one another on the way from one end to the other
    Rank sends;                ///< on the way down, where each rank sends to one child after the other
    Rank largest_path_up;      ///< ranks of all subtrees on one way up, where each child sends its subtree's
    Rank largest_path_down;    ///< the same on the way down, one child after the other
    double sizes_of_subtrees;  ///< ranks of all subtrees, together
  };
  /// Computed once, as long as a thread asks for the same number of ranks.
  [[nodiscard]] static const Figures& figures(Rank ranks);

 private:
  [[nodiscard]] Rank reach() const noexcept { return is_root() ? widest() : place_ & (~place_ + 1); }
  [[nodiscard]] Rank rank_at(Rank place) const noexcept { return (place + root_) % size_; }

  const Rank size_;
  const Rank root_;
  const Rank place_;
};

}  // namespace cohort
