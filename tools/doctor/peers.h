// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/tools/doctor/pairs.h>

#include <vector>

namespace cohort::doctor {

/// Measures between the first ranks of all hosts, pair by pair, over connections of its own, so that what
/// fails between two of them ends no collective. Gives the pairs, on rank 0. All ranks call it.
[[nodiscard]] Task<std::vector<Pair>> measure_pairs(Communicator& comm);

}  // namespace cohort::doctor
