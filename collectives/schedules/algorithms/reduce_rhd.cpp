// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/halving.h>

namespace cohort {
namespace reduce_rhd {
namespace {

/// Recursive halving reduce (Rabenseifner): partial sums of half of what is left go to the place that differs
/// in one bit, and the sums of each place's slices come together at the root.
///
/// Cost: 2 log2 p rounds (1 more at most when p is no power of two); (p-1)/p * bytes reduced and 2(p-1)/p *
/// bytes received by the root for a power of two, bytes more otherwise.
///
/// Streams: main and two sub streams. Scratch: bytes, as only the root has memory for a sum. Order of
/// reduction: own partial sum first, from the farthest place to the nearest (determinism D1). Source: Thakur,
/// Rabenseifner, Gropp 2005, section 4.4.
///
/// The second rank of a place hears from the first when that has heard from everybody.
Task<> reduce_rhd(Exec& x, Reduce op) {
  const Fold fold(x.size());
  const Rank from_root = (x.rank() + x.size() - op.root) % x.size();
  if (fold.is_second(from_root)) {
    Link& first = x.link(x.behind(1));
    const VectorSlices given(op.send, x.size(), op.element_bytes);
    co_await send_slices(first, given, 0, x.size(), Signal::DataSignal);
    co_await first.wait(Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(from_root);
  const Reducer reducer = x.reducer(op.combine);
  const Slice sum = from_root == 0 ? op.recv : x.scratch(0, op.send.bytes);
  const VectorSlices slices(sum, x.size(), op.element_bytes);
  Halving halving(x, slices, op.root);
  co_await x.copy(sum, op.send);
  if (has_second)
    co_await receive_reduce_slices(x.link(x.ahead(1)), slices, 0, x.size(), reducer, Signal::DataSignal);
  co_await halving.reduce_scatter(reducer);
  if (has_second) co_await x.link(x.ahead(1)).post(Signal::DataSignal);
  co_await x.finish_average(op.combine, halving.own());
  co_await halving.gather();
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(ranks, true);
  tally.halve();
  tally.unfold(0);
  tally.gather();
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Tally::of<count>(ranks).cost(n / ranks).copying(n);
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_all = true, .scratch_bytes = bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

const Algorithm<Reduce> kAlgorithm = {.name = "rhd",
                                      .distances = Distances::swaps_far,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_rhd};

}  // namespace
}  // namespace reduce_rhd

AnyAlgorithm describe(const struct ReduceRhd*) { return reduce_rhd::kAlgorithm; }

}  // namespace cohort
