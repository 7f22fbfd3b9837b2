// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_levels.h>
#include <cohort/collectives/schedules/links/by_ring.h>

namespace cohort {
namespace all_reduce_mesh_ring {
namespace {

constexpr levels::Schedule<AllReduce> kAcross = ring::all_reduce;

/// Two-level all_reduce: a mesh reduce_scatter inside of hosts, ring all_reduces across them, of 1/q of the
/// data among the ranks in each place, a mesh all_gather inside.
///
/// Cost, m hosts of q ranks: 2m rounds; per rank 2(q-1)/q * bytes sent inside and 2(m-1)/p * bytes across,
/// and (p-1)/p * bytes reduced. Streams: main and q-1 sub streams. Scratch: bytes. Order of reduction: by
/// rank inside of a host, then around the ring (determinism D1). Source: Cho et al., BlueConnect, 2019;
/// Patarasuk and Yuan 2009.
Task<> all_reduce_mesh_ring(Exec& x, AllReduce op) { return levels::all_reduce(x, op, kAcross); }

Cost cost_in_place(std::size_t bytes, Rank ranks) {
  return ring::cost_of_all_reduce(bytes, ranks).copying(0);
}

Cost cost(std::size_t bytes, const Hosts& hosts) {
  const bool is_in_place = hosts.most_ranks() > 1;
  return levels::cost_of_all_reduce(is_in_place ? cost_in_place : ring::cost_of_all_reduce, bytes, hosts);
}

Needs needs(std::size_t bytes, const Hosts& hosts) {
  return levels::in_rings(levels::needs_of_vector(bytes, hosts));
}

const Algorithm<AllReduce> kAlgorithm = {.name = "mesh_ring",
                                         .levels = Levels::equal_hosts,
                                         .cost = cost,
                                         .needs = needs,
                                         .largest_piece = levels::largest_vector,
                                         .schedule = all_reduce_mesh_ring};

}  // namespace
}  // namespace all_reduce_mesh_ring

AnyAlgorithm describe(const struct AllReduceMeshRing*) { return all_reduce_mesh_ring::kAlgorithm; }

}  // namespace cohort
