// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace all_reduce_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// Nonuniform hierarchical ring all_reduce: reduce_scatter and all_gather whose largest messages, of half of
/// the data, go to the neighbour, there and back.
///
/// Cost: 2 ceil(log2 p) rounds for every p, one or two messages each; 2(p-1)/p * bytes sent and (p-1)/p *
/// bytes reduced per rank. Streams: main and two sub streams. Scratch: bytes. Order of reduction: own partial
/// sum first, then round by round (determinism D1). Source: compare PAT, arXiv 2506.20252.
Task<> all_reduce_nhr(Exec& x, AllReduce op) {
  return dissemination::all_reduce(x, op, Order::farthest_first, Towards::next, Order::farthest_first);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_reduce(Order::farthest_first, Order::farthest_first, bytes, ranks);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "nhr",
                                         .distances = Distances::powers_near,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_vector,
                                         .largest_piece = dissemination::largest_vector,
                                         .schedule = all_reduce_nhr};

}  // namespace
}  // namespace all_reduce_nhr

AnyAlgorithm describe(const struct AllReduceNhr*) { return all_reduce_nhr::kAlgorithm; }

}  // namespace cohort
