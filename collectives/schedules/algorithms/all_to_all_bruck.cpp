// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/maybe_empty.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace cohort {
namespace all_to_all_bruck {
namespace {

/// How blocks travel: the one for the rank `way` ahead goes 2^k ahead in every round k whose bit `way` has,
/// and is there after the last of them. The blocks of a round are one message, in the order of ways.
class Ways {
 public:
  explicit Ways(Rank ranks) noexcept : ranks_(ranks) {}

  [[nodiscard]] unsigned rounds() const noexcept { return static_cast<unsigned>(std::bit_width(ranks_ - 1)); }
  [[nodiscard]] static bool goes_in(Rank way, unsigned round) noexcept { return (way >> round & 1U) != 0; }
  [[nodiscard]] static bool is_there_after(Rank way, unsigned round) noexcept { return way >> round == 1; }
  /// How far behind whoever sends it in that round a block has started.
  [[nodiscard]] static Rank gone_before(Rank way, unsigned round) noexcept {
    return way % (Rank{1} << round);
  }
  /// How many go in that round, in all rounds, and in the fullest.
  [[nodiscard]] Rank going_in(unsigned round) const noexcept {
    const Rank step = Rank{1} << round;
    const Rank in_last = ranks_ % (2 * step);
    return ranks_ / (2 * step) * step + (in_last > step ? in_last - step : 0);
  }
  [[nodiscard]] Rank going() const noexcept {
    Rank sum = 0;
    for (unsigned round = 0; round < rounds(); ++round) sum += going_in(round);
    return sum;
  }
  [[nodiscard]] Rank most_in_a_round() const noexcept {
    Rank most = 0;
    for (unsigned round = 0; round < rounds(); ++round) most = std::max(most, going_in(round));
    return most;
  }

 private:
  const Rank ranks_;
};

/// Where the block of each way lies on this rank: at first those that it gives, then those that it has got to
/// pass on. Scratch: the message of a round as it is packed, then what came in each round.
template <class Op>
class Travelling : Immovable {
 public:
  Travelling(Exec& x, const Op& op)
      : x_(x), op_(op), came_(Ways(x.size()).most_in_a_round() * op.size_bytes()), at_(x.lease_places()) {
    for (Rank way = 0; way < x.size(); ++way) at_.push_back({x.rank(), op.to(x.ahead(way))});
  }
  ~Travelling() { x_.give_back(std::move(at_)); }

  /// Packs what goes in that round, into outgoing().
  Task<> pack(unsigned round) {
    std::size_t end = 0;
    for (Rank way = 1; way < x_.size(); ++way) {
      if (!Ways::goes_in(way, round)) continue;
      const Slice block = at_[way].slice;
      co_await x_.copy(x_.scratch(end, block.bytes), block);
      end += block.bytes;
    }
    outgoing_ = x_.scratch(0, end);
  }
  [[nodiscard]] const Slice& outgoing() const noexcept { return outgoing_; }
  /// Where what comes in that round goes.
  [[nodiscard]] Slice incoming(unsigned round) {
    const std::size_t begin = came_;
    for (Rank way = 1; way < x_.size(); ++way) {
      if (!Ways::goes_in(way, round)) continue;
      const Rank behind = (Rank{1} << round) + Ways::gone_before(way, round);
      const Rank giver = x_.behind(behind);
      const Rank taker = (giver + way) % x_.size();
      at_[way].slice = x_.scratch(came_, op_.bytes_between(giver, taker));
      came_ += at_[way].slice.bytes;
    }
    return x_.scratch(begin, came_ - begin);
  }
  /// Takes what has arrived for this rank.
  Task<> unpack(unsigned round) {
    for (Rank way = 1; way < x_.size(); ++way) {
      if (!Ways::is_there_after(way, round)) continue;
      co_await x_.copy(op_.from(x_.behind(way)), at_[way].slice);
    }
  }

 private:
  Exec& x_;
  const Op& op_;
  Slice outgoing_;
  std::size_t came_;  ///< where in scratch what has come ends
  std::vector<PlacedSlice> at_;
};

/// Bruck's all_to_all, also of blocks that differ: in round k every rank sends to the one 2^k ahead all
/// blocks whose distance has bit k, own ones and those that it passes on, in one message.
///
/// Cost: ceil(log2 p) rounds; about p/2 * block bytes sent per round and rank. Streams: main and two sub
/// streams. Scratch: a packed message, and what comes in each round. Source: Bruck et al. 1997, index
/// operation, without its first rotation: blocks start from where the caller has them.
template <class Op>
Task<> all_to_all_bruck(Exec& x, Op op) {
  const Ways ways(x.size());
  Travelling blocks(x, op);
  co_await x.copy(op.from(x.rank()), op.to(x.rank()));
  for (unsigned round = 0; round < ways.rounds(); ++round) {
    co_await blocks.pack(round);
    const Slice incoming = blocks.incoming(round);
    Link& next = x.link(x.ahead(Rank{1} << round));
    Link& previous = x.link(x.behind(Rank{1} << round));
    co_await x.streams().fork_join(send_or_post(next, blocks.outgoing()),
                                   receive_or_wait(previous, incoming));
    co_await blocks.unpack(round);
  }
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Ways ways(ranks);
  const double n = static_cast<double>(bytes) * ways.going();
  // Everything that is sent is packed, and every block is taken where it arrives; the own one is copied.
  return {.rounds = static_cast<double>(ways.rounds()),
          .bytes_moved = n,
          .bytes_copied = n + static_cast<double>(bytes) * ranks,
          .messages = static_cast<double>(ranks) * ways.rounds(),
          .bytes_by_all = n * ranks};
}

/// Blocks of one message, and of all that come.
std::size_t blocks_in_scratch(Rank ranks) {
  const Ways ways(ranks);
  return std::size_t{ways.most_in_a_round()} + ways.going();
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = bytes * blocks_in_scratch(ranks)};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return buffer_bytes / std::max<std::size_t>(1, blocks_in_scratch(ranks));  // one rank has none
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "bruck",
                                      .distances = Distances::powers,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = all_to_all_bruck<Op>};

}  // namespace
}  // namespace all_to_all_bruck

AnyAlgorithm describe(const struct AllToAllBruck*) { return all_to_all_bruck::kAlgorithm<AllToAll>; }

AnyAlgorithm describe(const struct AllToAllVcBruck*) { return all_to_all_bruck::kAlgorithm<AllToAllVc>; }

}  // namespace cohort
