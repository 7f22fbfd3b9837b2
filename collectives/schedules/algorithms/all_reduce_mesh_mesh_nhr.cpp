// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_reduce_mesh_mesh_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

Task<> across_switches(Exec& x, AllReduce op) {
  return dissemination::all_reduce(x, op, Order::farthest_first, Towards::next, Order::farthest_first);
}

Task<> across_hosts(Exec& x, AllReduce op) { return levels::all_reduce(x, op, across_switches); }

Cost cost_across_switches(std::size_t bytes, Rank switches) {
  return dissemination::cost_of_all_reduce(Order::farthest_first, Order::farthest_first, bytes, switches);
}

Cost cost_across_hosts(std::size_t bytes, const Hosts& switches) {
  return levels::cost_of_all_reduce(cost_across_switches, bytes, switches);
}

Cost cost_in_place(std::size_t bytes, const Hosts& switches) {
  return levels::cost_of_all_reduce(cost_across_switches, bytes, switches, true);
}

/// Three-level all_reduce: a mesh reduce_scatter inside of hosts, and one of 1/q of the data among the ranks
/// in each place of the hosts below a switch; nhr all_reduces of 1/(q h) across switches; mesh all_gathers
/// back.
///
/// Cost, s switches of h hosts of q ranks: 4 + 2 ceil(log2 s) rounds; per rank 2(q-1)/q * bytes sent inside,
/// 2(h-1)/(q h) * bytes below the switch and 2(s-1)/p * bytes across, and (p-1)/p * bytes reduced.
///
/// Streams: main and q-1, h-1 or two sub streams. Scratch: bytes. Order of reduction: by rank inside of a
/// host, by host below a switch, then as nhr (determinism D1). Source: Cho et al., BlueConnect, 2019, which
/// takes a stage for each level of a network; nhr as in all_reduce_mesh_nhr.
Task<> all_reduce_mesh_mesh_nhr(Exec& x, AllReduce op) { return levels::all_reduce(x, op, across_hosts); }

Cost cost(std::size_t bytes, const Hosts& hosts) {
  const bool is_in_place = hosts.most_ranks() > 1;
  return levels::cost_of_all_reduce(is_in_place ? cost_in_place : cost_across_hosts, bytes, hosts);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "mesh_mesh_nhr",
                                         .levels = Levels::equal_switches,
                                         .cost = cost,
                                         .needs = levels::needs_of_vector_by_switch,
                                         .largest_piece = levels::largest_vector,
                                         .schedule = all_reduce_mesh_mesh_nhr};

}  // namespace
}  // namespace all_reduce_mesh_mesh_nhr

AnyAlgorithm describe(const struct AllReduceMeshMeshNhr*) { return all_reduce_mesh_mesh_nhr::kAlgorithm; }

}  // namespace cohort
