// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/signals.h>

namespace cohort {
namespace barrier_nb {
namespace {

/// Dissemination barrier: in round k every rank tells the rank 2^k ahead and hears from the one 2^k behind.
/// Cost: ceil(log2 p) rounds for every p; as many signals per rank. Source: Hensgen, Finkel, Manber 1988.
Task<> barrier_nb(Exec& x, Barrier) { return signal_around(x); }

Cost cost(std::size_t, Rank ranks) { return cost_of_signals_around(ranks); }

const Algorithm<Barrier> kAlgorithm = {.name = "nb",
                                       .distances = Distances::powers,
                                       .cost = cost,
                                       .needs = links_to_all,
                                       .schedule = barrier_nb};

}  // namespace
}  // namespace barrier_nb

AnyAlgorithm describe(const struct BarrierNb*) { return barrier_nb::kAlgorithm; }

}  // namespace cohort
