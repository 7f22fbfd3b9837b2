// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>

namespace cohort {
namespace {

/// Small all_gather between the ranks of a host: every rank brings its block when all meet, and takes
/// everybody else's out of their slots. Cost: the meeting, 1 round; (p-1) * block bytes read per rank.
/// Streams: main. Scratch: none.
void take(Exec& x, const AllGather& op) {
  for (const PlacedSlice& block : x.announced()) {
    const bool is_own = block.rank == x.rank();  // in place it is there already
    x.perform(x.copy_from(block.rank, op.block(block.rank), is_own ? op.send : block.slice));
  }
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

const Algorithm<AllGather> kAlgorithm = {.name = "slots",
                                         .ground = Ground::mapped,
                                         .cost = cost,
                                         .local = {.announces = Announces::data, .combine = take}};

}  // namespace

AnyAlgorithm describe(const struct AllGatherSlots*) { return kAlgorithm; }

}  // namespace cohort
