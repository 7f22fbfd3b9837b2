// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/ring.h>

namespace cohort {
namespace all_gather_ring {
namespace {

/// Ring all_gather, also of blocks that differ: blocks travel once around; in step t a rank passes on the
/// block it got in step t-1. Cost: p-1 rounds; all blocks but one sent per rank, each step as long as its
/// largest block. Streams: main and two sub streams. Scratch: none. Source: Chan et al. 2007.
template <class Op>
Task<> all_gather_ring(Exec& x, Op op) {
  Ring ring(x);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await x.copy(op.block(x.rank()), op.send);
  co_await ring.all_gather(block);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "ring",
                                      .distances = Distances::neighbours,
                                      .cost = cost,
                                      .needs = links_to_neighbours,
                                      .schedule = all_gather_ring<Op>};

}  // namespace
}  // namespace all_gather_ring

AnyAlgorithm describe(const struct AllGatherRing*) { return all_gather_ring::kAlgorithm<AllGather>; }

AnyAlgorithm describe(const struct AllGatherVRing*) { return all_gather_ring::kAlgorithm<AllGatherV>; }

}  // namespace cohort
