// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

namespace cohort {
namespace barrier_ring {
namespace {

/// Ring barrier: a token goes around to learn that all are there, and once more to tell them. Cost: 2p
/// rounds.
Task<> barrier_ring(Exec& x, Barrier) {
  Link& next = x.link(x.ahead(1));
  Link& previous = x.link(x.behind(1));
  for (const Signal token : {Signal::Ack, Signal::DataSignal}) {
    if (x.rank() != 0) co_await previous.wait(token);
    co_await next.post(token);
    if (x.rank() == 0) co_await previous.wait(token);
  }
}

Cost cost(std::size_t, Rank ranks) { return {.rounds = 2.0 * ranks, .messages = 2.0 * ranks}; }

const Algorithm<Barrier> kAlgorithm = {.name = "ring",
                                       .distances = Distances::neighbours,
                                       .cost = cost,
                                       .needs = links_to_neighbours,
                                       .schedule = barrier_ring};

}  // namespace
}  // namespace barrier_ring

AnyAlgorithm describe(const struct BarrierRing*) { return barrier_ring::kAlgorithm; }

}  // namespace cohort
