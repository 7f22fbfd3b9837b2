// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_gather_mesh_mesh_nhr {
namespace {

using dissemination::Order;

Task<> across_switches(Exec& x, AllGather op) {
  return dissemination::all_gather(x, op, Order::farthest_first);
}

Task<> across_hosts(Exec& x, AllGather op) { return levels::all_gather(x, op, across_switches); }

Cost cost_across_switches(std::size_t bytes, Rank switches) {
  return dissemination::cost_of_all_gather(Order::farthest_first, bytes, switches);
}

Cost cost_across_hosts(std::size_t bytes, const Hosts& switches) {
  return levels::cost_of_all_gather(cost_across_switches, bytes, switches);
}

/// Three-level all_gather: by nhr across switches everybody gets the blocks of the ranks in its place of the
/// hosts in its host's place, passes them on to the ranks in its place below its switch, on a mesh, and all
/// of these inside of its host, on another.
///
/// Cost, s switches of h hosts of q ranks, m hosts in all, blocks of `bytes`: ceil(log2 s) + 2 rounds; per
/// rank (s-1) * bytes sent across, (h-1)s * bytes below the switch and (q-1)m * bytes inside. Streams: main
/// and q-1, h-1 or two sub streams. Scratch: p + m + s blocks. Source: as all_reduce_mesh_mesh_nhr.
Task<> all_gather_mesh_mesh_nhr(Exec& x, AllGather op) { return levels::all_gather(x, op, across_hosts); }

Cost cost(std::size_t bytes, const Hosts& hosts) {
  return levels::cost_of_all_gather(cost_across_hosts, bytes, hosts);
}

const Algorithm<AllGather> kAlgorithm = {.name = "mesh_mesh_nhr",
                                         .levels = Levels::equal_switches,
                                         .cost = cost,
                                         .needs = levels::needs_of_all_gather_by_switch,
                                         .largest_piece = levels::largest_of_all_gather_by_switch,
                                         .schedule = all_gather_mesh_mesh_nhr};

}  // namespace
}  // namespace all_gather_mesh_mesh_nhr

AnyAlgorithm describe(const struct AllGatherMeshMeshNhr*) { return all_gather_mesh_mesh_nhr::kAlgorithm; }

}  // namespace cohort
