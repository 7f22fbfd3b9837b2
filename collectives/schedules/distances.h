// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>

#include <cstdint>

namespace cohort {

/// How far apart the ranks are that a schedule without levels lets exchange: what is known of how much of its
/// traffic stays inside of hosts. The ranks of a host follow one another, mostly.
enum class Distances : std::uint8_t {
  pairs,        ///< all pairs alike
  neighbours,   ///< around a ring
  powers,       ///< 1, 2, 4, ...: as much to each
  powers_near,  ///< the same, most bytes to the nearest
  powers_far,   ///< the same, most bytes to the farthest
  tree,         ///< the same, fewest messages and bytes to the farthest
  swaps,        ///< as powers, in pairs that exchange: near rounds may stay inside altogether
  swaps_far,    ///< the same, most bytes to the farthest
};

/// The cost of such a schedule on these hosts: what all ranks do, by the part of it that stays inside. What
/// follows one another leads from host to host, but for rounds that all ranks spend inside.
[[nodiscard]] Cost on_hosts(Cost cost, Distances distances, const Hosts& hosts) noexcept;

}  // namespace cohort
