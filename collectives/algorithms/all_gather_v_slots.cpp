// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>

namespace cohort {
namespace {

/// Small all_gather_v between the ranks of a host: every rank brings its block when all meet, and takes
/// everybody's out of their slots. Cost: the meeting, 1 round; all other blocks read per rank. Streams: main.
/// Scratch: none.
void take(Exec& x, const AllGatherV& op) {
  x.perform(x.copy(op.block(x.rank()), op.send));
  for (const Rank peer : x.peers()) {
    const Slice block = op.block(peer);
    x.perform(x.copy_from(peer, block, x.announced()[peer].slice.part(0, block.bytes)));
  }
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

const Algorithm<AllGatherV> kAlgorithm = {.name = "slots",
                                          .ground = Ground::mapped,
                                          .cost = cost,
                                          .local = {.announces = Announces::data, .combine = take}};

}  // namespace

AnyAlgorithm describe(const struct AllGatherVSlots*) { return kAlgorithm; }

}  // namespace cohort
