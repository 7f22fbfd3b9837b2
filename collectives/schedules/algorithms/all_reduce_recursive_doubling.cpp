// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/links/fold.h>

namespace cohort {
namespace all_reduce_recursive_doubling {
namespace {

/// Combines the peer's partial result into mine, the lower rank's operand first, so that both ends get the
/// same bits.
Task<> combine_with(Exec& x, Rank peer, Slice mine, const Combine& combine) {
  const Slice theirs = x.scratch(0, mine.bytes);
  Link& link = x.link(peer);
  co_await exchange(x, link, mine, link, theirs);
  const PlacedSlice inputs[] = {{x.here(), peer < x.rank() ? theirs : mine},
                                {x.here(), peer < x.rank() ? mine : theirs}};
  const PlacedSlice output[] = {{x.here(), mine}};
  Combine partial = combine;
  partial.average_over = 0;
  co_await x.reduce(output, inputs, partial);
}

/// Recursive doubling all_reduce: in round k, places 2^k apart exchange and combine everything they have so
/// far. Cost: log2 p rounds (2 more at most when p is no power of two); bytes sent and reduced per round.
/// Streams: main. Scratch: bytes. Order of reduction: a balanced tree over the ranks (determinism D1).
/// Source: Thakur, Rabenseifner, Gropp 2005, section 4.5.
Task<> all_reduce_recursive_doubling(Exec& x, AllReduce op) {
  const Fold fold(x.size());
  const Rank me = x.rank();
  co_await x.copy(op.recv, op.send);
  if (fold.is_second(me)) {
    Link& first = x.link(me - 1);
    co_await first.send(op.recv);
    co_await first.recv(op.recv);
    co_return;
  }
  if (fold.has_second(me)) {
    Link& second = x.link(me + 1);
    co_await second.recv_reduce(op.recv, x.reducer(op.combine));
  }
  for (Rank distance = 1; distance < fold.places(); distance *= 2)
    co_await combine_with(x, fold.first_rank(fold.place(me) ^ distance), op.recv, op.combine);
  co_await x.finish_average(op.combine, op.recv);
  if (fold.has_second(me)) co_await x.link(me + 1).send(op.recv);
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(1, true);
  for (Rank distance = 1; distance < tally.places(); distance *= 2) tally.exchange(distance, 1, true);
  tally.unfold(1);
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Tally::of<count>(ranks).cost(n).copying(n);
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_all = true, .scratch_bytes = bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

const Algorithm<AllReduce> kAlgorithm = {.name = "recursive_doubling",
                                         .distances = Distances::swaps,
                                         .cost = cost,
                                         .needs = needs,
                                         .largest_piece = largest_piece,
                                         .schedule = all_reduce_recursive_doubling};

}  // namespace
}  // namespace all_reduce_recursive_doubling

AnyAlgorithm describe(const struct AllReduceRecursiveDoubling*) {
  return all_reduce_recursive_doubling::kAlgorithm;
}

}  // namespace cohort
