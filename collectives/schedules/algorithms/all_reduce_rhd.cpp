// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/halving.h>

namespace cohort {
namespace all_reduce_rhd {
namespace {

/// Recursive halving and doubling all_reduce (Rabenseifner): partial sums of half of what is left go to the
/// place that differs in one bit, until each place has the sums of its slices; the same way back.
///
/// Cost: 2 log2 p rounds (2 more at most when p is no power of two); 2(p-1)/p * bytes sent and (p-1)/p *
/// bytes reduced per rank for a power of two, up to twice as much otherwise.
///
/// Streams: main and two sub streams. Scratch: none. Order of reduction: own partial sum first, from the
/// farthest place to the nearest (determinism D1). Source: Thakur, Rabenseifner, Gropp 2005, section 4.5.
Task<> all_reduce_rhd(Exec& x, AllReduce op) {
  const Fold fold(x.size());
  const VectorSlices slices(op.recv, x.size(), op.element_bytes);
  if (fold.is_second(x.rank())) {
    Link& first = x.link(x.behind(1));
    const VectorSlices given(op.send, x.size(), op.element_bytes);
    co_await send_slices(first, given, 0, x.size(), Signal::DataSignal);
    co_await receive_slices(first, slices, 0, x.size(), Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(x.rank());
  const Reducer reducer = x.reducer(op.combine);
  Halving halving(x, slices);
  co_await x.copy(op.recv, op.send);
  if (has_second)
    co_await receive_reduce_slices(x.link(x.ahead(1)), slices, 0, x.size(), reducer, Signal::DataSignal);
  co_await halving.reduce_scatter(reducer);
  co_await x.finish_average(op.combine, halving.own());
  co_await halving.all_gather();
  if (has_second) co_await send_slices(x.link(x.ahead(1)), slices, 0, x.size(), Signal::DataSignal);
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(ranks, true);
  tally.halve();
  tally.double_up();
  tally.unfold(ranks);
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Tally::of<count>(ranks).cost(n / ranks).copying(n);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "rhd",
                                         .distances = Distances::swaps_far,
                                         .cost = cost,
                                         .needs = links_to_all,
                                         .schedule = all_reduce_rhd};

}  // namespace
}  // namespace all_reduce_rhd

AnyAlgorithm describe(const struct AllReduceRhd*) { return all_reduce_rhd::kAlgorithm; }

}  // namespace cohort
