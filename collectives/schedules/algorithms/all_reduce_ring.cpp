// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_ring.h>

namespace cohort {
namespace all_reduce_ring {
namespace {

/// Ring all_reduce: ring reduce_scatter, then ring all_gather, on the receive buffer.
/// Cost: 2(p-1) rounds; 2(p-1)/p * bytes sent and (p-1)/p * bytes reduced per rank. Streams: main. Scratch:
/// none. Order of reduction: around the ring, fixed per element (determinism D1). Source: Patarasuk and Yuan
/// 2009.
Task<> all_reduce_ring(Exec& x, AllReduce op) { return ring::all_reduce(x, op); }

const Algorithm<AllReduce> kAlgorithm = {.name = "ring",
                                         .distances = Distances::neighbours,
                                         .cost = ring::cost_of_all_reduce,
                                         .needs = links_to_neighbours,
                                         .schedule = all_reduce_ring};

}  // namespace
}  // namespace all_reduce_ring

AnyAlgorithm describe(const struct AllReduceRing*) { return all_reduce_ring::kAlgorithm; }

}  // namespace cohort
