// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace broadcast_nb {
namespace {

using dissemination::Order;

/// Nonuniform Bruck broadcast: the root scatters slices down a binomial tree, then Bruck's all_gather. Cost:
/// 2 ceil(log2 p) rounds for every p; (p-1)/p * bytes sent per rank, twice that by the root. Streams: main
/// and two sub streams. Scratch: bytes. Source: van de Geijn's scatter + all-gather broadcast (Barnett et al.
/// 1994); Bruck et al., IEEE TPDS 8(11), 1997.
Task<> broadcast_nb(Exec& x, Broadcast op) { return dissemination::broadcast(x, op, Order::nearest_first); }

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return figures_of_scatter_and_spread(Order::nearest_first, ranks).cost(n / ranks).copying(n);
}

const Algorithm<Broadcast> kAlgorithm = {.name = "nb",
                                         .distances = Distances::powers,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_vector,
                                         .largest_piece = dissemination::largest_vector,
                                         .schedule = broadcast_nb};

}  // namespace
}  // namespace broadcast_nb

AnyAlgorithm describe(const struct BroadcastNb*) { return broadcast_nb::kAlgorithm; }

}  // namespace cohort
