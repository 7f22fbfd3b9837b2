// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/announced_blocks.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace gather_slots {
namespace {

/// Small gather between the ranks of a host: every rank brings its block as it comes, or says where it is if
/// all map it, and the root takes them. If all blocks and the root's buffer are mapped, each rank stores its
/// own there instead.
///
/// Cost: the arrival, 1 round; (p-1) * block bytes read by the root. Streams: main. Scratch: none.
void take(Exec& x, const Gather& op) {
  if (x.all_referred()) return store_at_root(x, op);
  if (x.rank() == op.root) take_announced_blocks(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

constexpr Algorithm<Gather> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take, .may_refer = true}};

constexpr Algorithm<GatherV> kVariant = variant_of<GatherV, kAlgorithm>();

}  // namespace
}  // namespace gather_slots

AnyAlgorithm describe(const struct GatherSlots*) { return gather_slots::kAlgorithm; }

AnyAlgorithm describe(const struct GatherVSlots*) { return gather_slots::kVariant; }

}  // namespace cohort
