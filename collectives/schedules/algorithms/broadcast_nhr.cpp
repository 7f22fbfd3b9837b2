// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace broadcast_nhr {
namespace {

using dissemination::Order;

/// Nonuniform hierarchical ring broadcast: a scatter whose largest messages go to the neighbour, then an
/// all_gather that goes back the same way.
///
/// Cost: 2 ceil(log2 p) rounds for every p; (p-1)/p * bytes sent per rank, twice that by the root. Streams:
/// main and two sub streams. Scratch: bytes. Source: van de Geijn's scatter + all-gather broadcast (Barnett
/// et al. 1994); compare PAT, arXiv 2506.20252.
Task<> broadcast_nhr(Exec& x, Broadcast op) { return dissemination::broadcast(x, op, Order::farthest_first); }

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return figures_of_scatter_and_spread(Order::farthest_first, ranks).cost(n / ranks).copying(n);
}

const Algorithm<Broadcast> kAlgorithm = {.name = "nhr",
                                         .distances = Distances::powers_near,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_vector,
                                         .largest_piece = dissemination::largest_vector,
                                         .schedule = broadcast_nhr};

}  // namespace
}  // namespace broadcast_nhr

AnyAlgorithm describe(const struct BroadcastNhr*) { return broadcast_nhr::kAlgorithm; }

}  // namespace cohort
