// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace broadcast_mesh_nhr {
namespace {

using dissemination::Order;

Task<> across(Exec& x, Broadcast op) { return dissemination::broadcast(x, op, Order::farthest_first); }

Cost cost_across(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return figures_of_scatter_and_spread(Order::farthest_first, ranks).cost(n / ranks).copying(n);
}

/// Two-level broadcast: the root scatters inside of its host, each rank of that host broadcasts its block
/// across by nhr, to the ranks in its place, and on a mesh inside of each host all pass theirs on.
///
/// Cost, m hosts of q ranks: 2 + 2 ceil(log2 m) rounds; the root sends 2(q-1)/q * bytes inside and 2(m-1)/p *
/// bytes across. Streams: main and q-1 or two sub streams. Scratch: bytes. Source: van de Geijn's scatter +
/// all_gather broadcast (Barnett et al. 1994) on both levels.
///
/// Across, all of a place hear of each other; inside, the root gets an Ack for the block that it has already.
Task<> broadcast_mesh_nhr(Exec& x, Broadcast op) { return levels::broadcast(x, op, across); }

Cost cost(std::size_t bytes, const Hosts& hosts) {
  return levels::cost_of_broadcast(cost_across, bytes, hosts);
}

const Algorithm<Broadcast> kAlgorithm = {.name = "mesh_nhr",
                                         .levels = Levels::equal_hosts,
                                         .cost = cost,
                                         .needs = levels::needs_of_vector,
                                         .largest_piece = levels::largest_vector,
                                         .schedule = broadcast_mesh_nhr};

}  // namespace
}  // namespace broadcast_mesh_nhr

AnyAlgorithm describe(const struct BroadcastMeshNhr*) { return broadcast_mesh_nhr::kAlgorithm; }

}  // namespace cohort
