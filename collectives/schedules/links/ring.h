// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {

/// The ring that every rank forms with its neighbours: each step passes a block ahead and takes one from
/// behind. `block(r)` below is rank r's block, or the part of it that goes around this ring.
class Ring {
 public:
  /// Which neighbour blocks go to.
  enum class Towards : std::uint8_t { next, previous };

  explicit Ring(Exec& x, Towards towards = Towards::next, Lane lane = 0)
      : x_(x),
        towards_(towards),
        next_(x.link(towards == Towards::next ? x.ahead(1) : x.behind(1), lane)),
        previous_(x.link(towards == Towards::next ? x.behind(1) : x.ahead(1), lane)) {}

  [[nodiscard]] Rank size() const noexcept { return x_.size(); }
  /// The block number `distance` behind this rank's own, around the ring.
  [[nodiscard]] Rank behind(Rank distance) const noexcept {
    return towards_ == Towards::next ? x_.behind(distance) : x_.ahead(distance);
  }

  /// One step: gives to the next rank while the previous one gives.
  [[nodiscard]] ForkJoin shift(Slice given, Slice taken) {
    return exchange(x_, next_, given, previous_, taken);
  }
  /// The same, where what comes is combined into what is there.
  [[nodiscard]] ForkJoin shift_reduce(Slice given, Slice taken, const Reducer& reducer) {
    return exchange_reduce(x_, next_, given, previous_, taken, reducer);
  }

  /// Every rank's block goes once around: in a step a rank passes on the block it got in the step before.
  template <class Block>
  Task<> all_gather(Block& block) {
    for (Rank step = 0; step + 1 < size(); ++step)
      co_await shift(block(behind(step)), block(behind(step + 1)));
  }

  /// A partial sum of each block goes once around, growing, and ends at its owner; what blocks held goes.
  template <class Block>
  Task<> reduce_scatter(Block& block, Reducer reducer) {
    for (Rank step = 0; step + 1 < size(); ++step)
      co_await shift_reduce(block(behind(step + 1)), block(behind(step + 2)), reducer);
  }

  /// The same where blocks, which may differ in size, stay as they are. Partial sums lie in two places in
  /// turn, the halves of `room`, so that a block is received while the one before is still being sent; the
  /// last one goes to `result`.
  template <class Block>
  Task<> reduce_scatter_apart(Block& block, Slice room, Slice result, Combine combine) {
    const Reducer reducer = x_.reducer(combine);
    const auto partial = [&](Rank step) {
      return room.part(step % 2 * (room.bytes / 2), block(behind(step + 1)).bytes);
    };
    co_await x_.copy(partial(0), block(behind(1)));
    for (Rank step = 0; step + 1 < size(); ++step) {
      const Slice next = partial(step + 1);
      co_await x_.copy(next, block(behind(step + 2)));
      co_await shift_reduce(partial(step), next, reducer);
    }
    const Slice sum = partial(size() - 1);
    co_await x_.finish_average(combine, sum);
    co_await x_.copy(result, sum);
  }

 private:
  Exec& x_;
  const Towards towards_;
  Link& next_;
  Link& previous_;
};

/// A ring in each direction, with half of every block on each. Between two ranks both use the same link, and
/// so a lane each.
class TwoRings {
 public:
  explicit TwoRings(Exec& x) : ahead_(x), back_(x, Ring::Towards::previous, x.size() == 2 ? 1 : 0) {}

  [[nodiscard]] Ring& ahead() noexcept { return ahead_; }
  [[nodiscard]] Ring& back() noexcept { return back_; }

  [[nodiscard]] static Needs needs(std::size_t scratch_bytes, Rank ranks) noexcept {
    return {.links_to_neighbours = true,
            .scratch_bytes = scratch_bytes,
            .lanes = static_cast<Lane>(ranks == 2 ? 2 : 1)};
  }

 private:
  Ring ahead_;
  Ring back_;
};

/// The parts of a block that go around each of two rings.
[[nodiscard]] inline Slice half_ahead(const Slice& block, std::size_t element_bytes) noexcept {
  return Blocks(block, 2, element_bytes)[0];
}
[[nodiscard]] inline Slice half_back(const Slice& block, std::size_t element_bytes) noexcept {
  return Blocks(block, 2, element_bytes)[1];
}

}  // namespace cohort
