// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/operators/all_reduce.h>
#include <cohort/collectives/schedules/operators/broadcast.h>
#include <cohort/collectives/schedules/operators/reduce.h>
#include <cohort/collectives/schedules/placed.h>

namespace cohort {

/// All user windows are mapped: combines this rank's share of all inputs, in rank order, in one pass, and
/// stores it into all outputs. Cost: (p-1)/p * bytes read, as much stored at peers, and as much reduced.
inline void combine_own_share(Exec& x, const AllReduce& op) {
  const Placed inputs(x, Blocks(op.send, x.size(), op.element_bytes)[x.rank()]);
  const Placed outputs(x, Blocks(op.recv, x.size(), op.element_bytes)[x.rank()]);
  x.perform(x.reduce(outputs.slices(), inputs.slices(), op.combine));
}

/// The same for the root alone.
inline void combine_own_share(Exec& x, const Reduce& op) {
  const Placed inputs(x, Blocks(op.send, x.size(), op.element_bytes)[x.rank()]);
  const PlacedSlice output[] = {{op.root, Blocks(op.at_root(), x.size(), op.element_bytes)[x.rank()]}};
  x.perform(x.reduce(output, inputs.slices(), op.combine));
}

/// All user windows are mapped: the root stores the last of p parts at each peer, which takes the others, so
/// that all copy the same, and nobody waits for who copies most.
inline void copy_at_both_ends(Exec& x, const Broadcast& op) {
  const Slice stored = Blocks(op.data, x.size(), op.element_bytes)[x.size() - 1];
  if (x.rank() == op.root) {
    for (const Rank peer : x.peers()) x.perform(x.copy_to(peer, stored, stored));
    return;
  }
  const Slice taken = op.data.part(0, op.data.bytes - stored.bytes);
  x.perform(x.copy_from(op.root, taken, taken));
}

/// Of a reduction of which each rank combines its share, without what it takes to pass the result on.
[[nodiscard]] inline Cost cost_of_own_share(std::size_t bytes, Rank ranks) {
  const double others = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 1, .bytes_moved = others, .bytes_reduced = others};
}

}  // namespace cohort
