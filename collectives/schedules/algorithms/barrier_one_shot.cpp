// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

namespace cohort {
namespace barrier_one_shot {
namespace {

/// One-shot barrier: tell everybody, hear from everybody. Cost: 1 round; p-1 signals per rank.
Task<> barrier_one_shot(Exec& x, Barrier) {
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

Cost cost(std::size_t, Rank ranks) { return {.rounds = 1, .messages = ranks * (ranks - 1.0)}; }

const Algorithm<Barrier> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = barrier_one_shot};

}  // namespace
}  // namespace barrier_one_shot

AnyAlgorithm describe(const struct BarrierOneShot*) { return barrier_one_shot::kAlgorithm; }

}  // namespace cohort
