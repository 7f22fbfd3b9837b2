// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/fold.h>
#include <cohort/collectives/schedules/links/rank_slices.h>

namespace cohort {

/// Recursive halving and doubling between the places of a Fold, as the first rank of a place does it. Each
/// step is with the place whose number differs in one bit, so that the slices of half of a range of places
/// go each way.
///
/// `Slices` (rank_slices.h) holds one for each rank, those of a place side by side. Ranks and slices count
/// from the root.
template <class Slices>
class Halving : Immovable {
 public:
  Halving(Exec& x, const Slices& slices, Rank root = 0)
      : x_(x),
        slices_(slices),
        root_(root),
        fold_(x.size()),
        place_(fold_.place((x.rank() + x.size() - root) % x.size())) {}

  /// The slices of this rank's place, of which there is one message.
  [[nodiscard]] Slice own() const noexcept {
    const Range mine = range(place_, 1);
    return slices_.message(mine.first, mine.count, 0);
  }

  /// Ends with the combination of the slices of this rank's place: own partial sums first.
  Task<> reduce_scatter(Reducer reducer) {
    for (Rank distance = fold_.places() / 2; distance != 0; distance /= 2) {
      const Range mine = range(place_, distance);
      const Range theirs = range(place_ ^ distance, distance);
      Link& peer = link_to(place_ ^ distance);
      co_await x_.streams().fork_join(
          send_slices(peer, slices_, theirs.first, theirs.count, kDown),
          receive_reduce_slices(peer, slices_, mine.first, mine.count, reducer, kDown));
    }
  }

  /// Begins with the slices of this rank's place, ends with all.
  Task<> all_gather() {
    for (Rank distance = 1; distance < fold_.places(); distance *= 2) {
      Link& peer = link_to(place_ ^ distance);
      co_await x_.streams().fork_join(send_range(peer, range(place_, distance)),
                                      receive_range(peer, range(place_ ^ distance, distance)));
    }
  }

  /// The same where the root has all slices from the start, and may not write them: it gets signals.
  Task<> all_gather_but_to_root() {
    for (Rank distance = 1; distance < fold_.places(); distance *= 2) {
      Link& peer = link_to(place_ ^ distance);
      const bool is_to_root = place_ == distance;
      Task<> out = is_to_root ? tell(peer) : send_range(peer, range(place_, distance));
      Task<> in = place_ == 0 ? hear(peer) : receive_range(peer, range(place_ ^ distance, distance));
      co_await x_.streams().fork_join(std::move(out), std::move(in));
    }
  }

  /// Every place's slices to the root.
  Task<> gather() {
    for (Rank distance = 1; distance < fold_.places(); distance *= 2) {
      if ((place_ & distance) != 0) {
        const Range mine = range(place_, distance);
        co_await send_range(link_to(place_ ^ distance), mine);
        co_return;
      }
      const Range theirs = range(place_ ^ distance, distance);
      co_await receive_range(link_to(place_ ^ distance), theirs);
    }
  }

  /// The same backwards: each place's slices from the root.
  Task<> scatter() {
    for (Rank distance = fold_.places() / 2; distance != 0; distance /= 2) {
      if ((place_ & (distance - 1)) != 0) continue;
      const Rank lower = place_ & ~distance;
      const Range theirs = range(lower ^ distance, distance);
      Link& peer = link_to(place_ ^ distance);
      if (place_ == lower)
        co_await send_slices(peer, slices_, theirs.first, theirs.count, kDown);
      else
        co_await receive_slices(peer, slices_, theirs.first, theirs.count, kDown);
    }
  }

 private:
  /// What goes in place of nothing where ranges become smaller, and where they become larger.
  static constexpr Signal kDown = Signal::DataSignal;
  static constexpr Signal kUp = Signal::DataAck;

  struct Range {
    Rank first;
    Rank count;
  };
  /// Of the `distance` places that have this one among them.
  [[nodiscard]] Range range(Rank place, Rank distance) const noexcept {
    const Rank begin = place & ~(distance - 1);
    const Rank first = fold_.first_rank(begin);
    return {first, fold_.first_rank(begin + distance) - first};
  }
  [[nodiscard]] Task<> send_range(Link& peer, Range of) const {
    return send_slices(peer, slices_, of.first, of.count, kUp);
  }
  [[nodiscard]] Task<> receive_range(Link& peer, Range of) const {
    return receive_slices(peer, slices_, of.first, of.count, kUp);
  }
  static Task<> tell(Link& peer) { co_await peer.post(kUp); }
  static Task<> hear(Link& peer) { co_await peer.wait(kUp); }
  [[nodiscard]] Link& link_to(Rank place) const {
    return x_.link((fold_.first_rank(place) + root_) % x_.size());
  }

  Exec& x_;
  const Slices& slices_;
  const Rank root_;
  const Fold fold_;
  const Rank place_;
};

}  // namespace cohort
