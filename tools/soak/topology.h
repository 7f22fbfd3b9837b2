// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/topology.h>
#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/job.h>

namespace cohort::soak {

/// Ranks that a job may have: more take a thread each, and too long.
inline constexpr Rank kMostRanksOfTopology = 32;

/// How many ranks a job on the topology has at least: all that its faults name. Throws InvalidArgument if
/// that is more than kMostRanksOfTopology.
[[nodiscard]] Rank least_ranks(const sim::Topology& topology);

/// Puts the job's ranks where the topology has them, on its links, and lets its faults happen that are the
/// world's: slow, degraded, lost, dead.
void settle(const sim::Topology& topology, Job& job);

/// The faults that are deeds of ranks: late, and one of those that cancel, which the seed chooses.
void draw_deeds(world::Random& random, const sim::Topology& topology, Job& job);

}  // namespace cohort::soak
