// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_gather_mesh_nhr {
namespace {

using dissemination::Order;

Task<> across(Exec& x, AllGather op) { return dissemination::all_gather(x, op, Order::farthest_first); }

Cost cost_across(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_gather(Order::farthest_first, bytes, ranks);
}

/// Two-level all_gather: by nhr across hosts everybody gets the blocks of the ranks in its place, and passes
/// them on inside of its host, on a mesh.
///
/// Cost, m hosts of q ranks, blocks of `bytes`: ceil(log2 m) + 1 rounds; per rank (m-1) * bytes sent across
/// and (q-1)m * bytes inside. Streams: main and q-1 or two sub streams. Scratch: p + m blocks. Source: as
/// all_reduce_mesh_nhr.
Task<> all_gather_mesh_nhr(Exec& x, AllGather op) { return levels::all_gather(x, op, across); }

Cost cost(std::size_t bytes, const Hosts& hosts) {
  return levels::cost_of_all_gather(cost_across, bytes, hosts);
}

const Algorithm<AllGather> kAlgorithm = {.name = "mesh_nhr",
                                         .levels = Levels::equal_hosts,
                                         .cost = cost,
                                         .needs = levels::needs_of_all_gather,
                                         .largest_piece = levels::largest_of_all_gather,
                                         .schedule = all_gather_mesh_nhr};

}  // namespace
}  // namespace all_gather_mesh_nhr

AnyAlgorithm describe(const struct AllGatherMeshNhr*) { return all_gather_mesh_nhr::kAlgorithm; }

}  // namespace cohort
