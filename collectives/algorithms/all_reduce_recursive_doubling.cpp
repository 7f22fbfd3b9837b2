// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/exchange.h>

#include <bit>

namespace cohort {
namespace {

/// How a number of ranks that is no power of two folds onto one that is: of the first 2 * extra ranks, each
/// odd one hands its data to the even one before it and waits for the result.
struct Fold {
  explicit Fold(Rank ranks) noexcept : power(std::bit_floor(ranks)), extra(ranks - power) {}

  [[nodiscard]] bool is_paired(Rank rank) const noexcept { return rank < 2 * extra; }
  /// The place of a rank among those that take part in the doubling.
  [[nodiscard]] Rank place(Rank rank) const noexcept { return is_paired(rank) ? rank / 2 : rank - extra; }
  [[nodiscard]] Rank rank_at(Rank place_of) const noexcept {
    return place_of < extra ? 2 * place_of : place_of + extra;
  }

  const Rank power;
  const Rank extra;
};

/// Combines the peer's partial result into mine, the lower rank's operand first, so that both ends get the
/// same bits.
Task<> combine_with(Exec& x, Rank peer, Slice mine, const Combine& combine) {
  const Slice theirs = x.scratch(0, mine.bytes);
  Link& link = x.link(peer);
  co_await exchange(x, link, mine, link, theirs);
  const PlacedSlice inputs[] = {{x.rank(), peer < x.rank() ? theirs : mine},
                                {x.rank(), peer < x.rank() ? mine : theirs}};
  const PlacedSlice output[] = {{x.rank(), mine}};
  Combine partial = combine;
  partial.average_over = 0;
  co_await x.reduce(output, inputs, partial);
}

/// Recursive doubling all_reduce: in round k, ranks 2^k apart exchange and combine everything they have so
/// far. Cost: log2 p rounds (2 more when p is no power of two); bytes sent and reduced per round. Streams:
/// main. Scratch: bytes. Order of reduction: a balanced tree over the ranks (determinism D1). Source: Thakur,
/// Rabenseifner, Gropp 2005, section 4.5.
Task<> all_reduce_recursive_doubling(Exec& x, AllReduce op) {
  const Fold fold(x.size());
  const Rank me = x.rank();
  co_await x.copy(op.recv, op.send);
  if (fold.is_paired(me) && me % 2 == 1) {
    Link& even = x.link(me - 1);
    co_await even.send(op.recv);
    co_await even.recv(op.recv);
    co_return;
  }
  if (fold.is_paired(me)) {
    Link& odd = x.link(me + 1);
    co_await odd.recv_reduce(op.recv, x.reducer(op.combine));
  }
  for (Rank distance = 1; distance < fold.power; distance *= 2)
    co_await combine_with(x, fold.rank_at(fold.place(me) ^ distance), op.recv, op.combine);
  co_await x.finish_average(op.combine, op.recv);
  if (fold.is_paired(me)) co_await x.link(me + 1).send(op.recv);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Fold fold(ranks);
  const double doublings = std::bit_width(fold.power) - 1;
  const double n = static_cast<double>(bytes);
  const double messages = fold.power * doublings + 2 * fold.extra;
  // Who waits for an odd rank is late by a round, and so is who hears of it last; both at once only if the
  // paired places meet their complements.
  const double late = (fold.extra == 0 ? 0 : 1) + (2 * fold.extra > fold.power ? 1 : 0);
  return {.rounds = doublings + late,
          .bytes_moved = (doublings + (fold.extra == 0 ? 0 : 2)) * n,
          .bytes_reduced = (doublings + (fold.extra == 0 ? 0 : 1)) * n,
          .messages = messages,
          .bytes_by_all = n * messages};
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_all = true, .scratch_bytes = bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

}  // namespace

const Algorithm<AllReduce> kAllReduceRecursiveDoubling = {.name = "recursive_doubling",
                                                          .cost = cost,
                                                          .needs = needs,
                                                          .largest_piece = largest_piece,
                                                          .schedule = all_reduce_recursive_doubling};

}  // namespace cohort
