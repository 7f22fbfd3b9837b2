// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/operators/all_reduce.h>
#include <cohort/collectives/schedule/blocks.h>
#include <cohort/collectives/schedule/placed.h>

namespace cohort {

/// All user windows are mapped: combines this rank's share of all inputs, in rank order, in one pass, and
/// stores it into all outputs. Cost: (p-1)/p * bytes read, as much stored at peers, and as much reduced.
inline void combine_own_share(Exec& x, const AllReduce& op) {
  const Placed inputs(x, Blocks(op.send, x.size(), op.element_bytes)[x.rank()]);
  const Placed outputs(x, Blocks(op.recv, x.size(), op.element_bytes)[x.rank()]);
  x.perform(x.reduce(outputs.slices(), inputs.slices(), op.combine));
}

}  // namespace cohort
