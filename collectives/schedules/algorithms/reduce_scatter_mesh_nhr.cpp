// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace reduce_scatter_mesh_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

Task<> across(Exec& x, ReduceScatter op) {
  return dissemination::reduce_scatter(x, op, Order::farthest_first, Towards::next);
}

Cost cost_across(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_reduce_scatter(Order::farthest_first, bytes, ranks);
}

/// Two-level reduce_scatter: on a mesh inside of hosts everybody gets what is for its place of all hosts, by
/// nhr across them each rank its own.
///
/// Cost, m hosts of q ranks, blocks of `bytes`: 1 + ceil(log2 m) rounds; per rank (q-1)m * bytes sent inside
/// and (m-1) * bytes across, and as much reduced.
///
/// Streams: main and q-1 or two sub streams. Scratch: p + max(q-1, 1)m blocks. Order of reduction: by rank
/// inside of a host, then as nhr (determinism D1). Source: as all_reduce_mesh_nhr.
Task<> reduce_scatter_mesh_nhr(Exec& x, ReduceScatter op) { return levels::reduce_scatter(x, op, across); }

Cost cost(std::size_t bytes, const Hosts& hosts) {
  return levels::cost_of_reduce_scatter(cost_across, bytes, hosts);
}

const Algorithm<ReduceScatter> kAlgorithm = {.name = "mesh_nhr",
                                             .levels = Levels::equal_hosts,
                                             .cost = cost,
                                             .needs = levels::needs_of_reduce_scatter,
                                             .largest_piece = levels::largest_of_reduce_scatter,
                                             .schedule = reduce_scatter_mesh_nhr};

}  // namespace
}  // namespace reduce_scatter_mesh_nhr

AnyAlgorithm describe(const struct ReduceScatterMeshNhr*) { return reduce_scatter_mesh_nhr::kAlgorithm; }

}  // namespace cohort
