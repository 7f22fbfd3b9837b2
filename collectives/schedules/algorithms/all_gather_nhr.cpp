// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace all_gather_nhr {
namespace {

using dissemination::Order;

/// Nonuniform hierarchical ring all_gather: Bruck's distances from the largest down, so that the largest
/// message, of half of all blocks, goes to the next rank.
///
/// Cost: ceil(log2 p) rounds for every p, one or two messages each; (p-1) * block bytes sent per rank.
/// Streams: main and two sub streams. Scratch: p * block bytes. Source: Bruck et al., IEEE TPDS 8(11), 1997,
/// with the dimensions reversed; compare PAT, arXiv 2506.20252.
Task<> all_gather_nhr(Exec& x, AllGather op) {
  return dissemination::all_gather(x, op, Order::farthest_first);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_gather(Order::farthest_first, bytes, ranks);
}

const Algorithm<AllGather> kAlgorithm = {.name = "nhr",
                                         .distances = Distances::powers_near,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_blocks,
                                         .largest_piece = dissemination::largest_block,
                                         .schedule = all_gather_nhr};

}  // namespace
}  // namespace all_gather_nhr

AnyAlgorithm describe(const struct AllGatherNhr*) { return all_gather_nhr::kAlgorithm; }

}  // namespace cohort
