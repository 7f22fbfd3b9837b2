// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/shares.h>

namespace cohort {
namespace reduce_slots {
namespace {

/// Small reduce between the ranks of a host: every rank brings its vector as it comes, or says where it is if
/// all map it, and the root combines all of them, in rank order (determinism D3). If all vectors and the
/// root's output are mapped, each rank combines its share instead, and stores it there.
///
/// Cost: the arrival, 1 round; (p-1) * bytes read and reduced by the root. Streams: main. Scratch: none.
void combine(Exec& x, const Reduce& op) {
  if (x.all_referred()) return combine_own_share(x, op);
  if (x.rank() != op.root) return;
  Placed inputs(x, x.announced(), 0, op.send.bytes);
  inputs.replace(op.root, op.send);
  const PlacedSlice output[] = {{op.root, op.recv}};
  x.perform(x.reduce(output, inputs.slices(), op.combine));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = n, .bytes_reduced = n};
}

const Algorithm<Reduce> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = combine, .may_refer = true}};

}  // namespace
}  // namespace reduce_slots

AnyAlgorithm describe(const struct ReduceSlots*) { return reduce_slots::kAlgorithm; }

}  // namespace cohort
