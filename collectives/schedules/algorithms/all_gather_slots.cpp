// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/announced_blocks.h>

#include <concepts>

namespace cohort {
namespace all_gather_slots {
namespace {

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

/// Small all_gather, also of blocks that differ, between the ranks of a host: every rank brings its block
/// when all meet, or says where it is if all map it, and takes everybody else's.
/// Cost: the arrival, 1 round; (p-1) * block bytes read per rank. Streams: main. Scratch: none.
template <class Op>
constexpr Algorithm<Op> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take_announced_blocks<Op>, .may_refer = true},
    .keeps_to_blocks = std::same_as<Op, AllGather>};

}  // namespace
}  // namespace all_gather_slots

AnyAlgorithm describe(const struct AllGatherSlots*) { return all_gather_slots::kAlgorithm<AllGather>; }

AnyAlgorithm describe(const struct AllGatherVSlots*) { return all_gather_slots::kAlgorithm<AllGatherV>; }

}  // namespace cohort
