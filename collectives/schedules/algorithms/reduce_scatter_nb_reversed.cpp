// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace reduce_scatter_nb_reversed {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// Nonuniform Bruck reduce_scatter, reversed: Bruck's all_gather run backwards, partial sums coming back the
/// way on which blocks would go out, so that the largest message goes farthest.
///
/// Cost: ceil(log2 p) rounds for every p, one message each; (p-1) * block bytes sent and reduced per rank.
/// Streams: main and two sub streams. Scratch: p * block bytes; the caller's input stays as it is. Order of
/// reduction: own partial sum first, then round by round (determinism D1). Source: Bruck et al., IEEE TPDS
/// 8(11), 1997, concatenation.
Task<> reduce_scatter_nb_reversed(Exec& x, ReduceScatter op) {
  return dissemination::reduce_scatter(x, op, Order::nearest_first, Towards::next);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_reduce_scatter(Order::nearest_first, bytes, ranks);
}

const Algorithm<ReduceScatter> kAlgorithm = {.name = "nb_reversed",
                                             .distances = Distances::powers_far,
                                             .cost = cost,
                                             .needs = dissemination::needs_of_blocks,
                                             .largest_piece = dissemination::largest_block,
                                             .schedule = reduce_scatter_nb_reversed};

}  // namespace
}  // namespace reduce_scatter_nb_reversed

AnyAlgorithm describe(const struct ReduceScatterNbReversed*) {
  return reduce_scatter_nb_reversed::kAlgorithm;
}

}  // namespace cohort
