// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/exchange.h>

#include <algorithm>
#include <bit>

namespace cohort {
namespace {

/// How blocks travel: the one for the rank `way` ahead goes 2^k ahead in every round k whose bit `way` has,
/// and is there after the last of them.
class Ways {
 public:
  explicit Ways(Rank ranks) noexcept : ranks_(ranks) {}

  [[nodiscard]] unsigned rounds() const noexcept { return static_cast<unsigned>(std::bit_width(ranks_ - 1)); }
  [[nodiscard]] static bool goes_in(Rank way, unsigned round) noexcept { return (way >> round & 1U) != 0; }
  /// Of those that go in that round, how many come before `way`: its place in the round's message.
  [[nodiscard]] static Rank place(Rank way, unsigned round) noexcept {
    const Rank step = Rank{1} << round;
    const Rank in_last = way % (2 * step);
    return way / (2 * step) * step + (in_last > step ? in_last - step : 0);
  }
  /// How many go in that round, and how many in all rounds before it.
  [[nodiscard]] Rank going_in(unsigned round) const noexcept { return place(ranks_, round); }
  [[nodiscard]] Rank going_before(unsigned round) const noexcept {
    Rank sum = 0;
    for (unsigned k = 0; k < round; ++k) sum += going_in(k);
    return sum;
  }
  [[nodiscard]] Rank most_in_a_round() const noexcept {
    Rank most = 0;
    for (unsigned k = 0; k < rounds(); ++k) most = std::max(most, going_in(k));
    return most;
  }
  /// The round before this one in which `way` went; none if it starts now.
  [[nodiscard]] static bool has_gone_before(Rank way, unsigned round) noexcept {
    return way % (Rank{1} << round) != 0;
  }
  [[nodiscard]] static unsigned last_round_before(Rank way, unsigned round) noexcept {
    return static_cast<unsigned>(std::bit_width(way % (Rank{1} << round))) - 1;
  }
  [[nodiscard]] static bool is_there_after(Rank way, unsigned round) noexcept { return way >> round == 1; }

 private:
  const Rank ranks_;
};

/// Scratch: the message of a round as it is packed, then what came in each round.
class Places {
 public:
  Places(Exec& x, std::size_t block_bytes) noexcept : x_(x), ways_(x.size()), block_bytes_(block_bytes) {}

  [[nodiscard]] Slice outgoing(unsigned round) const noexcept {
    return x_.scratch(0, ways_.going_in(round) * block_bytes_);
  }
  [[nodiscard]] Slice incoming(unsigned round) const noexcept {
    const std::size_t at = ways_.most_in_a_round() + ways_.going_before(round);
    return x_.scratch(at * block_bytes_, ways_.going_in(round) * block_bytes_);
  }
  [[nodiscard]] Slice block_in(const Slice& message, Rank way, unsigned round) const noexcept {
    return message.part(Ways::place(way, round) * block_bytes_, block_bytes_);
  }

 private:
  Exec& x_;
  const Ways ways_;
  const std::size_t block_bytes_;
};

/// Packs what goes in that round: own blocks that start, others from where they came.
Task<> pack(Exec& x, AllToAll op, Places places, unsigned round) {
  const Slice message = places.outgoing(round);
  for (Rank way = 1; way < x.size(); ++way) {
    if (!Ways::goes_in(way, round)) continue;
    Slice block = op.to(x.ahead(way));
    if (Ways::has_gone_before(way, round)) {
      const unsigned last = Ways::last_round_before(way, round);
      block = places.block_in(places.incoming(last), way, last);
    }
    co_await x.copy(places.block_in(message, way, round), block);
  }
}

/// Takes what has arrived for this rank.
Task<> unpack(Exec& x, AllToAll op, Places places, unsigned round) {
  const Slice message = places.incoming(round);
  for (Rank way = 1; way < x.size(); ++way)
    if (Ways::is_there_after(way, round))
      co_await x.copy(op.from(x.behind(way)), places.block_in(message, way, round));
}

/// Bruck's all_to_all: in round k every rank sends to the one 2^k ahead all blocks whose distance has bit k,
/// own ones and those that it passes on, in one message. Cost: ceil(log2 p) rounds; about p/2 * block bytes
/// sent per round and rank. Streams: main and two sub streams. Scratch: a packed message, and what comes in
/// each round. Source: Bruck et al. 1997, index operation, without its first rotation: blocks start from
/// where the caller has them.
Task<> all_to_all_bruck(Exec& x, AllToAll op) {
  const Ways ways(x.size());
  const Places places(x, op.size_bytes());
  co_await x.copy(op.from(x.rank()), op.to(x.rank()));
  for (unsigned round = 0; round < ways.rounds(); ++round) {
    co_await pack(x, op, places, round);
    Link& next = x.link(x.ahead(Rank{1} << round));
    Link& previous = x.link(x.behind(Rank{1} << round));
    co_await exchange(x, next, places.outgoing(round), previous, places.incoming(round));
    co_await unpack(x, op, places, round);
  }
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Ways ways(ranks);
  const double n = static_cast<double>(bytes) * ways.going_before(ways.rounds());
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
  return std::size_t{ways.most_in_a_round()} + ways.going_before(ways.rounds());
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = bytes * blocks_in_scratch(ranks)};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return buffer_bytes / std::max<std::size_t>(1, blocks_in_scratch(ranks));  // one rank has none
}

const Algorithm<AllToAll> kAlgorithm = {.name = "bruck",
                                        .distances = Distances::powers,
                                        .cost = cost,
                                        .needs = needs,
                                        .largest_piece = largest_piece,
                                        .schedule = all_to_all_bruck};

}  // namespace

AnyAlgorithm describe(const struct AllToAllBruck*) { return kAlgorithm; }

}  // namespace cohort
