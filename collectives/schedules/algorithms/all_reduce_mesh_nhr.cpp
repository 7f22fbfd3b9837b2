// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_reduce_mesh_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

Task<> across(Exec& x, AllReduce op) {
  return dissemination::all_reduce(x, op, Order::farthest_first, Towards::next, Order::farthest_first);
}

Cost cost_across(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_reduce(Order::farthest_first, Order::farthest_first, bytes, ranks);
}

/// Two-level all_reduce: a mesh reduce_scatter inside of hosts, nhr all_reduces across them, of 1/q of the
/// data among the ranks in each place, a mesh all_gather inside.
///
/// Cost, m hosts of q ranks: 2 + 2 ceil(log2 m) rounds; per rank 2(q-1)/q * bytes sent inside and 2(m-1)/p *
/// bytes across, and (p-1)/p * bytes reduced.
///
/// Streams: main and q-1 or two sub streams. Scratch: bytes. Order of reduction: by rank inside of a host,
/// then as nhr (determinism D1). Source: two-level all_reduce with a share of the network for each rank (Cho
/// et al., BlueConnect, 2019); for nhr compare PAT, arXiv 2506.20252.
Task<> all_reduce_mesh_nhr(Exec& x, AllReduce op) { return levels::all_reduce(x, op, across); }

Cost cost(std::size_t bytes, const Hosts& hosts) {
  return levels::cost_of_all_reduce(cost_across, bytes, hosts);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "mesh_nhr",
                                         .levels = Levels::equal_hosts,
                                         .cost = cost,
                                         .needs = levels::needs_of_vector,
                                         .largest_piece = levels::largest_vector,
                                         .schedule = all_reduce_mesh_nhr};

}  // namespace
}  // namespace all_reduce_mesh_nhr

AnyAlgorithm describe(const struct AllReduceMeshNhr*) { return all_reduce_mesh_nhr::kAlgorithm; }

}  // namespace cohort
