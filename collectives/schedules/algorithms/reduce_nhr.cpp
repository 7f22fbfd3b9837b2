// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace reduce_nhr {
namespace {

using dissemination::Order;

/// Nonuniform hierarchical ring reduce: a reduce_scatter whose largest messages go to the neighbour, then a
/// gather that goes back the same way.
///
/// Cost: 2 ceil(log2 p) rounds for every p; (p-1)/p * bytes reduced and sent per rank, twice that received by
/// the root. Streams: main and two sub streams. Scratch: bytes. Order of reduction: own partial sum first,
/// then round by round (determinism D1). Source: Rabenseifner's reduce-scatter + gather (Thakur,
/// Rabenseifner, Gropp 2005, section 4.4); compare PAT, arXiv 2506.20252.
Task<> reduce_nhr(Exec& x, Reduce op) { return dissemination::reduce(x, op, Order::farthest_first); }

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return figures_of_combine_and_gather(Order::farthest_first, ranks).cost(n / ranks).copying(2 * n);
}

const Algorithm<Reduce> kAlgorithm = {.name = "nhr",
                                      .distances = Distances::powers_near,
                                      .cost = cost,
                                      .needs = dissemination::needs_of_vector,
                                      .largest_piece = dissemination::largest_vector,
                                      .schedule = reduce_nhr};

}  // namespace
}  // namespace reduce_nhr

AnyAlgorithm describe(const struct ReduceNhr*) { return reduce_nhr::kAlgorithm; }

}  // namespace cohort
