// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/ring.h>

namespace cohort {
namespace {

/// Ring all_gather_v: blocks travel once around; in step t a rank passes on the block it got in step t-1.
/// Cost: p-1 rounds; all blocks but one sent per rank, each step as long as its largest block. Streams: main
/// and two sub streams. Scratch: none. Source: Chan et al. 2007.
Task<> all_gather_v_ring(Exec& x, AllGatherV op) {
  Ring ring(x);
  co_await x.copy(op.block(x.rank()), op.send);
  for (Rank step = 0; step + 1 < ring.size(); ++step)
    co_await ring.shift(op.block(ring.behind(step)), op.block(ring.behind(step + 1)));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {
      .rounds = ranks - 1.0, .bytes_moved = n, .messages = ranks * (ranks - 1.0), .bytes_by_all = n * ranks};
}

const Algorithm<AllGatherV> kAlgorithm = {
    .name = "ring", .cost = cost, .needs = links_to_neighbours, .schedule = all_gather_v_ring};

}  // namespace

AnyAlgorithm describe(const struct AllGatherVRing*) { return kAlgorithm; }

}  // namespace cohort
