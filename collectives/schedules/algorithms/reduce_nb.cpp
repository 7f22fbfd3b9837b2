// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>

namespace cohort {
namespace reduce_nb {
namespace {

using dissemination::Order;

/// Nonuniform Bruck reduce: Bruck's all_gather run backwards, combining, then a gather up a binomial tree.
///
/// Cost: 2 ceil(log2 p) rounds for every p; (p-1)/p * bytes reduced and sent per rank, twice that received by
/// the root.
///
/// Streams: main and two sub streams. Scratch: bytes. Order of reduction: own partial sum first, then round
/// by round (determinism D1). Source: Rabenseifner's reduce-scatter + gather (Thakur, Rabenseifner, Gropp
/// 2005, section 4.4); Bruck et al., IEEE TPDS 8(11), 1997.
Task<> reduce_nb(Exec& x, Reduce op) { return dissemination::reduce(x, op, Order::nearest_first); }

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return figures_of_combine_and_gather(Order::nearest_first, ranks).cost(n / ranks).copying(2 * n);
}

const Algorithm<Reduce> kAlgorithm = {.name = "nb",
                                      .distances = Distances::powers,
                                      .cost = cost,
                                      .needs = dissemination::needs_of_vector,
                                      .largest_piece = dissemination::largest_vector,
                                      .schedule = reduce_nb};

}  // namespace
}  // namespace reduce_nb

AnyAlgorithm describe(const struct ReduceNb*) { return reduce_nb::kAlgorithm; }

}  // namespace cohort
