// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace reduce_scatter_nb {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// Nonuniform Bruck reduce_scatter, forward: in round k every rank sends its partial sums of half of the
/// blocks that are left to the rank 2^k ahead, so that the largest message goes to the next rank.
///
/// Cost: ceil(log2 p) rounds for every p, one or two messages each; (p-1) * block bytes sent and reduced per
/// rank. Streams: main and two sub streams. Scratch: p * block bytes; the caller's input stays as it is.
/// Order of reduction: own partial sum first, then round by round (determinism D1). Source: Traeff, arXiv
/// 2410.14234.
Task<> reduce_scatter_nb(Exec& x, ReduceScatter op) {
  return dissemination::reduce_scatter(x, op, Order::farthest_first, Towards::previous);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_reduce_scatter(Order::farthest_first, bytes, ranks);
}

const Algorithm<ReduceScatter> kAlgorithm = {.name = "nb",
                                             .distances = Distances::powers_near,
                                             .cost = cost,
                                             .needs = dissemination::needs_of_blocks,
                                             .largest_piece = dissemination::largest_block,
                                             .schedule = reduce_scatter_nb};

}  // namespace
}  // namespace reduce_scatter_nb

AnyAlgorithm describe(const struct ReduceScatterNb*) { return reduce_scatter_nb::kAlgorithm; }

}  // namespace cohort
