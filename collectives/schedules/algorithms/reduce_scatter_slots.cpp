// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/placed.h>

namespace cohort {
namespace reduce_scatter_slots {
namespace {

/// Small reduce_scatter, also of blocks that differ, between the ranks of a host: every rank brings its input
/// when all meet, or says where it is if all map it, and combines its block of all of them.
///
/// Cost: the arrival, 1 round; (p-1) * block bytes read and reduced per rank. Streams: main. Scratch: none.
/// Order of reduction: by rank (determinism D3).
template <class Op>
void combine(Exec& x, const Op& op) {
  const Slice own = op.block(x.rank());
  const Placed inputs(x, x.announced(), own.offset, own.bytes);
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  x.perform(x.reduce(output, inputs.slices(), op.combine));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = n, .bytes_reduced = n};
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = combine<Op>, .may_refer = true}};

}  // namespace
}  // namespace reduce_scatter_slots

AnyAlgorithm describe(const struct ReduceScatterSlots*) {
  return reduce_scatter_slots::kAlgorithm<ReduceScatter>;
}

AnyAlgorithm describe(const struct ReduceScatterVSlots*) {
  return reduce_scatter_slots::kAlgorithm<ReduceScatterV>;
}

}  // namespace cohort
