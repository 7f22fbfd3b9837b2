// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/halving.h>

namespace cohort {
namespace {

/// Recursive halving reduce_scatter: partial sums of half of the blocks that are left go to the place that
/// differs in one bit. Cost: log2 p rounds (2 more at most when p is no power of two); (p-1) * block bytes
/// sent and reduced per rank for a power of two, up to twice as much otherwise. Streams: main and two sub
/// streams. Scratch: p * block bytes; the caller's input stays as it is. Order of reduction: own partial sum
/// first, from the farthest place to the nearest (determinism D1). Source: Thakur, Rabenseifner, Gropp 2005,
/// section 4.3.
Task<> reduce_scatter_rhd(Exec& x, ReduceScatter op) {
  const Fold fold(x.size());
  const std::size_t block_bytes = op.recv.bytes;
  const auto sum_of = [&](Rank rank) { return x.scratch(rank * block_bytes, block_bytes); };
  const Slice all = x.scratch(0, x.size() * block_bytes);
  for (Rank rank = 0; rank < x.size(); ++rank) co_await x.copy(sum_of(rank), op.block(rank));
  const VectorSlices slices(all, x.size(), op.element_bytes);
  if (fold.is_second(x.rank())) {
    Link& first = x.link(x.behind(1));
    const VectorSlices own(op.recv, 1, op.element_bytes);
    co_await send_slices(first, slices, 0, x.size(), Signal::DataSignal);
    co_await receive_slices(first, own, 0, 1, Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(x.rank());
  const Reducer reducer = x.reducer(op.combine);
  Halving halving(x, slices);
  if (has_second)
    co_await receive_reduce_slices(x.link(x.ahead(1)), slices, 0, x.size(), reducer, Signal::DataSignal);
  co_await halving.reduce_scatter(reducer);
  co_await x.finish_average(op.combine, halving.own());
  if (has_second) co_await send_slices(x.link(x.ahead(1)), slices, x.ahead(1), 1, Signal::DataSignal);
  co_await x.copy(op.recv, sum_of(x.rank()));
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(ranks, true);
  tally.halve();
  tally.unfold(1);
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Tally::of<count>(ranks).cost(n).copying(n * (ranks + 1.0));
}

Needs needs(std::size_t bytes, Rank ranks) { return {.links_to_all = true, .scratch_bytes = bytes * ranks}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) { return buffer_bytes / ranks; }

const Algorithm<ReduceScatter> kAlgorithm = {.name = "rhd",
                                             .distances = Distances::swaps_far,
                                             .cost = cost,
                                             .needs = needs,
                                             .largest_piece = largest_piece,
                                             .schedule = reduce_scatter_rhd};

}  // namespace

AnyAlgorithm describe(const struct ReduceScatterRhd*) { return kAlgorithm; }

}  // namespace cohort
