// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/exec.h>

namespace cohort {

// In place a result takes the place of an input, which peers may still read if its owner has referred to it.
// So it waits in the owner's slot, which is empty then, until all have passed the phase.

/// Where this rank's result goes before the phase.
[[nodiscard]] inline Slice until_phase(const Exec& x, const Slice& result) {
  return x.has_referred(x.rank()) ? x.slot(result.bytes) : result;
}

/// After it: the result that has waited takes its place.
inline void take_after_phase(Exec& x, const Slice& result) {
  if (x.has_referred(x.rank())) x.perform(x.copy(result, x.slot(result.bytes)));
}

}  // namespace cohort
