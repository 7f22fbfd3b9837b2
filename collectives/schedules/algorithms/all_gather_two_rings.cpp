// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/ring.h>

namespace cohort {
namespace all_gather_two_rings {
namespace {

/// All_gather on two rings: the first half of every block travels once around ahead, the second half once
/// around back.
///
/// Cost: p-1 rounds of two messages; (p-1) * block bytes sent per rank, half of them each way. Streams: main
/// and two sub streams, which fork two more in each step. Scratch: none. Source: Chan et al. 2007, in both
/// directions.
Task<> all_gather_two_rings(Exec& x, AllGather op) {
  TwoRings rings(x);
  auto first = [&](Rank rank) { return half_ahead(op.block(rank), op.element_bytes); };
  auto second = [&](Rank rank) { return half_back(op.block(rank), op.element_bytes); };
  auto ahead = [&] { return rings.ahead().all_gather(first); };
  auto back = [&] { return rings.back().all_gather(second); };
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.fork_join(ahead, back);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = 2 * ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

Needs needs(std::size_t, Rank ranks) { return TwoRings::needs(0, ranks); }

const Algorithm<AllGather> kAlgorithm = {.name = "two_rings",
                                         .distances = Distances::neighbours,
                                         .cost = cost,
                                         .needs = needs,
                                         .schedule = all_gather_two_rings};

}  // namespace
}  // namespace all_gather_two_rings

AnyAlgorithm describe(const struct AllGatherTwoRings*) { return all_gather_two_rings::kAlgorithm; }

}  // namespace cohort
