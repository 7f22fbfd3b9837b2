// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

namespace cohort {
namespace barrier_slots {
namespace {

/// Barrier of the ranks of a host: when all have met it is over. Cost: the arrival, 1 round.
void all_have_come(Exec&, const Barrier&) {}

Cost cost(std::size_t, Rank) { return {.rounds = 1}; }

const Algorithm<Barrier> kAlgorithm = {.name = "slots",
                                       .scope = Scope::node,
                                       .cost = cost,
                                       .local = {.announces = Announces::data, .combine = all_have_come}};

}  // namespace
}  // namespace barrier_slots

AnyAlgorithm describe(const struct BarrierSlots*) { return barrier_slots::kAlgorithm; }

}  // namespace cohort
