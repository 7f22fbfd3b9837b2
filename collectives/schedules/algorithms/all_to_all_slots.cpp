// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace all_to_all_slots {
namespace {

/// Small all_to_all between the ranks of a host: every rank brings all its blocks when all meet, or says
/// where they are if all map them, and takes its own of everybody's: first from itself, while others' lines
/// are on their way, then the nearest peer's, so that not all read the same one.
///
/// Cost: the arrival, 1 round; (p-1) * block bytes read per rank. Streams: main. Scratch: none.
void take(Exec& x, const AllToAll& op) {
  const auto take_from = [&](Rank giver) {
    const Slice block = op.at_giver(giver);
    const Slice brought = x.announced()[giver].slice.part(block.offset, block.bytes);
    x.perform(x.copy_from(giver, op.from(giver), brought));
  };
  take_from(x.rank());
  for (const Rank peer : x.peers()) take_from(peer);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

constexpr Algorithm<AllToAll> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take, .may_refer = true}};

constexpr Algorithm<AllToAllVc> kVariant = variant_of<AllToAllVc, kAlgorithm>();

}  // namespace
}  // namespace all_to_all_slots

AnyAlgorithm describe(const struct AllToAllSlots*) { return all_to_all_slots::kAlgorithm; }

AnyAlgorithm describe(const struct AllToAllVcSlots*) { return all_to_all_slots::kVariant; }

}  // namespace cohort
