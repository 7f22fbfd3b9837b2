// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exec.h>

namespace cohort {

/// Takes everybody's block out of their slots, and the own one from where it is.
template <class Op>
void take_announced_blocks(Exec& x, const Op& op) {
  for (const PlacedSlice& given : x.announced()) {
    const Slice block = op.block(given.rank);
    const bool is_own = given.rank == x.rank();  // in place it is there already
    x.perform(x.copy_from(given.rank, block, is_own ? op.send : given.slice.part(0, block.bytes)));
  }
}

}  // namespace cohort
