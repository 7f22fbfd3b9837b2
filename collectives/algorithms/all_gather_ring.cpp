// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/ring.h>

namespace cohort {
namespace {

/// Ring all_gather: blocks travel once around; in step t a rank passes on the block it got in step t-1.
/// Cost: p-1 rounds; (p-1) * block bytes sent per rank. Streams: main. Scratch: none. Source: Chan et al.
/// 2007.
Task<> all_gather_ring(Exec& x, AllGather op) {
  Ring ring(x);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await x.copy(op.block(x.rank()), op.send);
  co_await ring.all_gather(block);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_reduced = 0,
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

const Algorithm<AllGather> kAlgorithm = {
    .name = "ring", .cost = cost, .needs = links_to_neighbours, .schedule = all_gather_ring};

}  // namespace

AnyAlgorithm describe(const struct AllGatherRing*) { return kAlgorithm; }

}  // namespace cohort
