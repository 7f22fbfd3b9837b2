// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace all_gather_nb {
namespace {

using dissemination::Order;

/// Nonuniform Bruck all_gather: in round k every rank sends all blocks that it has, or in the last round
/// those that are missing there, to the rank 2^k ahead.
///
/// Cost: ceil(log2 p) rounds for every p, one message each; (p-1) * block bytes sent per rank. Streams: main
/// and two sub streams. Scratch: p * block bytes. Source: Bruck et al., IEEE TPDS 8(11), 1997, concatenation.
Task<> all_gather_nb(Exec& x, AllGather op) { return dissemination::all_gather(x, op, Order::nearest_first); }

Cost cost(std::size_t bytes, Rank ranks) {
  return dissemination::cost_of_all_gather(Order::nearest_first, bytes, ranks);
}

const Algorithm<AllGather> kAlgorithm = {.name = "nb",
                                         .distances = Distances::powers_far,
                                         .cost = cost,
                                         .needs = dissemination::needs_of_blocks,
                                         .largest_piece = dissemination::largest_block,
                                         .schedule = all_gather_nb};

}  // namespace
}  // namespace all_gather_nb

AnyAlgorithm describe(const struct AllGatherNb*) { return all_gather_nb::kAlgorithm; }

}  // namespace cohort
