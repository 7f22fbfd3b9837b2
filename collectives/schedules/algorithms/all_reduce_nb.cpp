// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace all_reduce_nb {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// Nonuniform Bruck all_reduce: the forward reduce_scatter, whose largest message goes to the next rank, then
/// Bruck's all_gather.
///
/// Cost: 2 ceil(log2 p) rounds for every p; 2(p-1)/p * bytes sent and (p-1)/p * bytes reduced per rank.
/// Streams: main and two sub streams. Scratch: bytes. Order of reduction: own partial sum first, then round
/// by round (determinism D1). Source: Traeff, arXiv 2410.14234; Bruck et al., IEEE TPDS 8(11), 1997.
Task<> all_reduce_nb(Exec& x, AllReduce op) {
  return dissemination::all_reduce(x, op, Order::farthest_first, Towards::previous, Order::nearest_first);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_reduce(Order::farthest_first, Order::nearest_first, bytes, ranks);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "nb",
                                         .distances = Distances::powers,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_vector,
                                         .largest_piece = dissemination::largest_vector,
                                         .schedule = all_reduce_nb};

}  // namespace
}  // namespace all_reduce_nb

AnyAlgorithm describe(const struct AllReduceNb*) { return all_reduce_nb::kAlgorithm; }

}  // namespace cohort
