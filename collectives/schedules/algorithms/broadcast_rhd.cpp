// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/halving.h>

namespace cohort {
namespace broadcast_rhd {
namespace {

/// Recursive halving and doubling broadcast: the root scatters slices, half of what is left to the place that
/// differs in one bit, and they come together the same way back.
///
/// Cost: 2 log2 p rounds (2 more at most when p is no power of two); 2(p-1)/p * bytes sent by the root for a
/// power of two, bytes more otherwise. Streams: main and two sub streams. Scratch: none. Source: van de
/// Geijn's scatter + all-gather broadcast (Barnett et al. 1994); Thakur, Rabenseifner, Gropp 2005, section
/// 4.2.
///
/// The Ack of the second rank of a place goes on with the data of the first: all hear from everybody.
Task<> broadcast_rhd(Exec& x, Broadcast op) {
  const Fold fold(x.size());
  const VectorSlices slices(op.data, x.size(), op.element_bytes);
  const Rank from_root = (x.rank() + x.size() - op.root) % x.size();
  if (fold.is_second(from_root)) {
    Link& first = x.link(x.behind(1));
    co_await first.post(Signal::Ack);
    co_await receive_slices(first, slices, 0, x.size(), Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(from_root);
  Halving halving(x, slices, op.root);
  if (has_second) co_await x.link(x.ahead(1)).wait(Signal::Ack);
  co_await halving.scatter();
  co_await halving.all_gather_but_to_root();
  if (has_second) co_await send_slices(x.link(x.ahead(1)), slices, 0, x.size(), Signal::DataSignal);
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(0, false);
  tally.scatter();
  tally.double_up(true);
  tally.unfold(ranks);
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  return Tally::of<count>(ranks).cost(static_cast<double>(bytes) / ranks);
}

const Algorithm<Broadcast> kAlgorithm = {.name = "rhd",
                                         .distances = Distances::swaps_far,
                                         .cost = cost,
                                         .needs = links_to_all,
                                         .schedule = broadcast_rhd};

}  // namespace
}  // namespace broadcast_rhd

AnyAlgorithm describe(const struct BroadcastRhd*) { return broadcast_rhd::kAlgorithm; }

}  // namespace cohort
