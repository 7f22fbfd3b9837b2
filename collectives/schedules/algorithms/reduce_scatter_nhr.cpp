// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace reduce_scatter_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// Nonuniform hierarchical ring reduce_scatter: in round k every rank sends its partial sums of half of the
/// blocks that are left to the rank 2^k behind, so that the largest message goes to the neighbour, and an
/// all_gather by nhr goes back the same way.
///
/// Cost: ceil(log2 p) rounds for every p, one or two messages each; (p-1) * block bytes sent and reduced per
/// rank. Streams: main and two sub streams. Scratch: p * block bytes; the caller's input stays as it is.
/// Order of reduction: own partial sum first, then round by round (determinism D1). Source: compare PAT,
/// arXiv 2506.20252.
Task<> reduce_scatter_nhr(Exec& x, ReduceScatter op) {
  return dissemination::reduce_scatter(x, op, Order::farthest_first, Towards::next);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_reduce_scatter(Order::farthest_first, bytes, ranks);
}

const Algorithm<ReduceScatter> kAlgorithm = {.name = "nhr",
                                             .distances = Distances::powers_near,
                                             .cost = cost,
                                             .needs = dissemination::needs_of_blocks,
                                             .largest_piece = dissemination::largest_block,
                                             .schedule = reduce_scatter_nhr};

}  // namespace
}  // namespace reduce_scatter_nhr

AnyAlgorithm describe(const struct ReduceScatterNhr*) { return reduce_scatter_nhr::kAlgorithm; }

}  // namespace cohort
