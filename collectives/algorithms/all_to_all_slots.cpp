// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/variant.h>

namespace cohort {
namespace {

/// Small all_to_all between the ranks of a host: every rank brings all its blocks when all meet, or says
/// where they are if all map them, and takes its own of everybody's. Cost: the meeting, 1 round; (p-1) *
/// block bytes read per rank. Streams: main. Scratch: none.
void take(Exec& x, const AllToAll& op) {
  for (const PlacedSlice& brought : x.announced()) {
    const Slice block = op.at_giver(brought.rank);
    x.perform(
        x.copy_from(brought.rank, op.from(brought.rank), brought.slice.part(block.offset, block.bytes)));
  }
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

constexpr Algorithm<AllToAll> kAlgorithm = {
    .name = "slots",
    .ground = Ground::mapped,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take, .may_refer = true}};

constexpr Algorithm<AllToAllVc> kVariant = variant_of<AllToAllVc, kAlgorithm>();

}  // namespace

AnyAlgorithm describe(const struct AllToAllSlots*) { return kAlgorithm; }

AnyAlgorithm describe(const struct AllToAllVcSlots*) { return kVariant; }

}  // namespace cohort
