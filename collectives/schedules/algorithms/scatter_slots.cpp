// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scatter_slots {
namespace {

/// Small scatter between the ranks of a host: the root brings all blocks as it comes, or says where they
/// are if all map them, and everybody takes its own from there. Cost: the arrival, 1 round; block bytes read
/// per rank. Streams: main. Scratch: none.
void take(Exec& x, const Scatter& op) {
  const Slice block = op.block(x.rank());
  if (x.rank() == op.root) return x.perform(x.copy(op.recv, block));
  const Slice brought = x.announced()[op.root].slice.part(block.offset, block.bytes);
  x.perform(x.copy_from(op.root, op.recv, brought));
}

Cost cost(std::size_t bytes, Rank) { return {.rounds = 1, .bytes_moved = static_cast<double>(bytes)}; }

constexpr Algorithm<Scatter> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take, .may_refer = true}};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace
}  // namespace scatter_slots

AnyAlgorithm describe(const struct ScatterSlots*) { return scatter_slots::kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVSlots*) { return scatter_slots::kVariant; }

}  // namespace cohort
