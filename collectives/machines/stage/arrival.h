// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>

#include <vector>

namespace cohort::machine {

// What a communicator does as its ranks meet (onehost/arrival.h), for machines without real memory.

/// Before they meet: brings this rank's input as it arrives, unless its rank is one of those that refer to
/// theirs. `refers`: by rank.
void announce(Exec& x, const AnyAlgorithm& algorithm, const OperatorArguments& arguments,
              const std::vector<bool>& refers);

/// After they have met: the local schedule. Its arguments outlive the task.
Task<> run_local(Exec& x, const AnyAlgorithm& algorithm, const OperatorArguments& arguments);

}  // namespace cohort::machine
