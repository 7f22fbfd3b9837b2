// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/exec.h>

namespace cohort {

/// All user windows are mapped: stores the own block where the root wants it.
template <class Op>
void store_at_root(Exec& x, const Op& op) {
  x.perform(x.copy_to(op.root, op.block(x.rank()), op.send));
}

/// Takes the own block from where it is, and everybody's from where they announced it, nearest peer first, so
/// that not all read the same one. The own one first: what comes from the caller's caches is done while
/// others' lines are on their way.
template <class Op>
void take_announced_blocks(Exec& x, const Op& op) {
  x.perform(x.copy(op.block(x.rank()), op.send));  // in place it is there already
  for (const Rank peer : x.peers()) {
    const Slice block = op.block(peer);
    x.perform(x.copy_from(peer, block, x.announced()[peer].slice.part(0, block.bytes)));
  }
}

}  // namespace cohort
