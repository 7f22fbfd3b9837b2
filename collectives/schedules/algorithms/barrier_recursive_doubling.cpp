// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/fold.h>

namespace cohort {
namespace barrier_recursive_doubling {
namespace {

/// Recursive doubling barrier: in round k, places 2^k apart tell each other. Cost: log2 p rounds (2 more at
/// most when p is no power of two); as many signals per place. Source: Thakur, Rabenseifner, Gropp 2005,
/// section 4.5, without data.
Task<> barrier_recursive_doubling(Exec& x, Barrier) {
  const Fold fold(x.size());
  if (fold.is_second(x.rank())) {
    Link& first = x.link(x.behind(1));
    co_await first.post(Signal::Ack);
    co_await first.wait(Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(x.rank());
  if (has_second) co_await x.link(x.ahead(1)).wait(Signal::Ack);
  for (Rank distance = 1; distance < fold.places(); distance *= 2) {
    Link& peer = x.link(fold.first_rank(fold.place(x.rank()) ^ distance));
    co_await peer.post(Signal::Ack);
    co_await peer.wait(Signal::Ack);
  }
  if (has_second) co_await x.link(x.ahead(1)).post(Signal::DataSignal);
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(0, false);
  for (Rank distance = 1; distance < tally.places(); distance *= 2) tally.exchange(distance, 0, false);
  tally.unfold(0);
  return tally.counted();
}

Cost cost(std::size_t, Rank ranks) { return Tally::of<count>(ranks).cost(0); }

const Algorithm<Barrier> kAlgorithm = {.name = "recursive_doubling",
                                       .distances = Distances::swaps,
                                       .cost = cost,
                                       .needs = links_to_all,
                                       .schedule = barrier_recursive_doubling};

}  // namespace
}  // namespace barrier_recursive_doubling

AnyAlgorithm describe(const struct BarrierRecursiveDoubling*) {
  return barrier_recursive_doubling::kAlgorithm;
}

}  // namespace cohort
