// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

namespace cohort {
namespace barrier_direct {
namespace {

/// Direct barrier on mapped memory: one counter per rank. Cost: 1 phase.
Task<> barrier_direct(Exec& x, Barrier) { return x.phase(); }

Cost cost(std::size_t, Rank) { return {.rounds = 1}; }

const Algorithm<Barrier> kAlgorithm = {
    .name = "direct", .scope = Scope::node, .cost = cost, .schedule = barrier_direct};

}  // namespace
}  // namespace barrier_direct

AnyAlgorithm describe(const struct BarrierDirect*) { return barrier_direct::kAlgorithm; }

}  // namespace cohort
