// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/resources.h>
#include <cohort/collectives/job/wording.h>
#include <cohort/collectives/selection/link_speed.h>
#include <cohort/net/control_plane.h>

#include <optional>

namespace cohort {

/// Exchanges hellos with all ranks: compares what they must agree on, introduces the transports to each
/// other, and tells what links cost here, if any peer's memory is not mapped. From then on the control plane
/// listens in `services`.
///
/// Returns what links cost, the same on all ranks, measured within `budget` or assumed; nothing where all
/// memory is mapped. Throws Mismatch naming
/// rank, field and both values, ProtocolError, PeerDied, ...; all with the peer as culprit.
Task<std::optional<LinkSpeed>> exchange_hellos(Engine& engine, const Membership& membership,
                                               ControlPlane& control, Resources& resources,
                                               TaskScope& services, double ranks_per_core, Duration budget);

/// Why a joining was not through in time, although all ranks came: `silent` did not answer, or descriptors
/// had no room on their way.
[[nodiscard]] Error silence_at_joining(const Membership& membership, std::optional<Rank> silent,
                                       bool waits_for_room);
/// The same of a group that all have made.
[[nodiscard]] Error silence_in_group(const Membership& group, std::optional<Rank> silent,
                                     const Wording& wording);

}  // namespace cohort
