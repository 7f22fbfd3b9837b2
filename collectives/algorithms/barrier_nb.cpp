// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>

#include <bit>

namespace cohort {
namespace {

/// Dissemination barrier: in round k every rank tells the rank 2^k ahead and hears from the one 2^k behind.
/// Cost: ceil(log2 p) rounds for every p; as many signals per rank. Source: Hensgen, Finkel, Manber 1988.
Task<> barrier_nb(Exec& x, Barrier) {
  for (Rank distance = 1; distance < x.size(); distance *= 2) {
    co_await x.link(x.ahead(distance)).post(Signal::Ack);
    co_await x.link(x.behind(distance)).wait(Signal::Ack);
  }
}

Cost cost(std::size_t, Rank ranks) {
  const double rounds = std::bit_width(ranks - 1);
  return {.rounds = rounds, .messages = rounds * ranks};
}

const Algorithm<Barrier> kAlgorithm = {
    .name = "nb", .cost = cost, .needs = links_to_all, .schedule = barrier_nb};

}  // namespace

AnyAlgorithm describe(const struct BarrierNb*) { return kAlgorithm; }

}  // namespace cohort
