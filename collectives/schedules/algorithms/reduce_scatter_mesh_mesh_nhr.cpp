// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace reduce_scatter_mesh_mesh_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

Task<> across_switches(Exec& x, ReduceScatter op) {
  return dissemination::reduce_scatter(x, op, Order::farthest_first, Towards::next);
}

Task<> across_hosts(Exec& x, ReduceScatter op) { return levels::reduce_scatter(x, op, across_switches); }

Cost cost_across_switches(std::size_t bytes, Rank switches) {
  return dissemination::cost_of_reduce_scatter(Order::farthest_first, bytes, switches);
}

Cost cost_across_hosts(std::size_t bytes, const Hosts& switches) {
  return levels::cost_of_reduce_scatter(cost_across_switches, bytes, switches);
}

/// Three-level reduce_scatter: on a mesh inside of hosts everybody gets what is for its place of all hosts,
/// on one below a switch what is for its host's place below all switches, by nhr across them each rank its
/// own.
///
/// Cost, s switches of h hosts of q ranks, m hosts in all, blocks of `bytes`: 2 + ceil(log2 s) rounds; per
/// rank (q-1)m * bytes sent inside, (h-1)s * bytes below the switch and (s-1) * bytes across, and as much
/// reduced.
///
/// Streams: main and q-1, h-1 or two sub streams. Scratch: p + max((q-1)m, m + max(h-1, 1)s) blocks. Order of
/// reduction: by rank inside of a host, by host below a switch, then as nhr (determinism D1). Source: as
/// all_reduce_mesh_mesh_nhr.
Task<> reduce_scatter_mesh_mesh_nhr(Exec& x, ReduceScatter op) {
  return levels::reduce_scatter(x, op, across_hosts);
}

Cost cost(std::size_t bytes, const Hosts& hosts) {
  return levels::cost_of_reduce_scatter(cost_across_hosts, bytes, hosts);
}

const Algorithm<ReduceScatter> kAlgorithm = {.name = "mesh_mesh_nhr",
                                             .levels = Levels::equal_switches,
                                             .cost = cost,
                                             .needs = levels::needs_of_reduce_scatter_by_switch,
                                             .largest_piece = levels::largest_of_reduce_scatter_by_switch,
                                             .schedule = reduce_scatter_mesh_mesh_nhr};

}  // namespace
}  // namespace reduce_scatter_mesh_mesh_nhr

AnyAlgorithm describe(const struct ReduceScatterMeshMeshNhr*) {
  return reduce_scatter_mesh_mesh_nhr::kAlgorithm;
}

}  // namespace cohort
