// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace all_reduce_nb_reversed {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// Nonuniform Bruck all_reduce, reversed: Bruck's all_gather run backwards, combining, and then forwards.
///
/// Cost: 2 ceil(log2 p) rounds for every p, one message each; 2(p-1)/p * bytes sent and (p-1)/p * bytes
/// reduced per rank. Streams: main and two sub streams. Scratch: bytes. Order of reduction: own partial sum
/// first, then round by round (determinism D1). Source: Bruck et al., IEEE TPDS 8(11), 1997, concatenation.
Task<> all_reduce_nb_reversed(Exec& x, AllReduce op) {
  return dissemination::all_reduce(x, op, Order::nearest_first, Towards::next, Order::nearest_first);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_reduce(Order::nearest_first, Order::nearest_first, bytes, ranks);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "nb_reversed",
                                         .distances = Distances::powers_far,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_vector,
                                         .largest_piece = dissemination::largest_vector,
                                         .schedule = all_reduce_nb_reversed};

}  // namespace
}  // namespace all_reduce_nb_reversed

AnyAlgorithm describe(const struct AllReduceNbReversed*) { return all_reduce_nb_reversed::kAlgorithm; }

}  // namespace cohort
