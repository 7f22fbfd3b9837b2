// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/links/chunks.h>

#include <array>
#include <ranges>

namespace cohort {

/// Two binary trees over all ranks but the root, which is above both: who has children in one is a leaf of
/// the other, so that with half of a message along each nobody sends more than it gets, but for a leaf's
/// share.
///
/// Places count from 1. In the first tree a rank's place is how far it is behind the root, in the second one
/// less, around. A place with its lowest bit b has its children to the left and right of it, b/2 away where
/// there are so many. Source: Sanders, Speck, Traeff, Parallel Computing 35(12), 2009.
class DoubleTree {
 public:
  DoubleTree(Rank ranks, bool is_second) noexcept : last_(ranks - 1), is_second_(is_second) {}

  /// By distance from the root, which is 0; for the root itself none of these.
  [[nodiscard]] Rank parent(Rank rank) const noexcept { return rank_at(parent_place(place_of(rank))); }
  /// 0: there is none.
  [[nodiscard]] Rank left(Rank rank) const noexcept { return rank_at(left_place(place_of(rank))); }
  [[nodiscard]] Rank right(Rank rank) const noexcept { return rank_at(right_place(place_of(rank))); }

 private:
  [[nodiscard]] Rank place_of(Rank rank) const noexcept {
    if (!is_second_ || rank == 0) return rank;
    return rank == 1 ? last_ : rank - 1;
  }
  [[nodiscard]] Rank rank_at(Rank place) const noexcept {
    if (!is_second_ || place == 0) return place;
    return place == last_ ? 1 : place + 1;
  }
  [[nodiscard]] Rank parent_place(Rank place) const noexcept;
  [[nodiscard]] Rank left_place(Rank place) const noexcept;
  [[nodiscard]] Rank right_place(Rank place) const noexcept;

  Rank last_;
  bool is_second_;
};

/// One of the two trees as a rank sees it, and the half of a message that goes up it, down it, or both, in
/// chunks. Each tree has a lane of its own: two ranks may be parent and child in both.
class HalfTree : Immovable {
 public:
  enum class Flow : std::uint8_t { up, down, both };

  HalfTree(Exec& x, Rank root, bool is_second, Flow flow);

  [[nodiscard]] bool is_root() const noexcept { return parent_ == nullptr; }
  [[nodiscard]] bool is_leaf() const noexcept { return children_[0] == nullptr; }
  /// Where this rank has its half.
  void use(const Slice& half) noexcept { half_ = half; }
  /// How what comes up is combined.
  void use(const Reducer& reducer, const Combine& combine) noexcept {
    reducer_ = reducer;
    combine_ = combine;
  }

  /// Before: everybody tells its parent, so that the root hears from all. After: the root tells all.
  Task<> tell_root();
  Task<> tell_all();

  /// What a rank does at once, a stream for each.
  enum class Role : std::uint8_t { combine, send_up, take, send_left, send_right };
  static constexpr std::size_t kRoles = 5;
  [[nodiscard]] bool has(Role role) const noexcept;
  [[nodiscard]] Task<> run(Role role);

 private:
  [[nodiscard]] bool goes_up() const noexcept { return flow_ != Flow::down; }
  [[nodiscard]] bool goes_down() const noexcept { return flow_ != Flow::up; }
  Task<> combine_chunks();

  Exec& x_;
  const Flow flow_;
  Slice half_;
  Reducer reducer_;
  Combine combine_;
  Link* parent_ = nullptr;
  std::array<Link*, 2> children_{};
  LocalNotify summed_;
  LocalNotify to_left_;
  LocalNotify to_right_;
};

/// Both trees of one message at once.
class DoubleTreeFlow : Immovable {
 public:
  DoubleTreeFlow(Exec& x, Rank root, HalfTree::Flow flow)
      : x_(x), first_(x, root, false, flow), second_(x, root, true, flow) {}

  [[nodiscard]] HalfTree& tree(std::size_t which) noexcept { return which == 0 ? first_ : second_; }
  Task<> run();

 private:
  Exec& x_;
  HalfTree first_;
  HalfTree second_;
};

/// A half of a message, the first one not the smaller, cut at whole elements of any type: costs, which know
/// bytes alone, cut it at the same place.
[[nodiscard]] Slice half_of(const Slice& whole, std::size_t which) noexcept;

/// Lanes for both trees, and scratch.
[[nodiscard]] Needs needs_of_double_tree(std::size_t scratch_bytes) noexcept;

[[nodiscard]] Cost cost_of_double_tree(std::size_t bytes, Rank ranks, HalfTree::Flow flow);

}  // namespace cohort
