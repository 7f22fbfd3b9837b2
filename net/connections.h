// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

namespace cohort {

/// That a lane to another host may consist of, over TCP.
inline constexpr unsigned kMostConnectionsOfLane = 16;
/// In place of their number: one or kConnectionsToMeasure, as ranks measure when they join.
inline constexpr unsigned kMeasuredConnections = 0;
inline constexpr unsigned kConnectionsToMeasure = 4;

/// All connections of a communicator between two ranks, as lanes.
inline constexpr Lane kConnectionsOfGroup = kLanesOfGroup * kMostConnectionsOfLane;
/// What a data connection is called that is the one of that number of a lane; the first one as the lane.
[[nodiscard]] constexpr Lane lane_of_connection(Lane lane, unsigned connection) noexcept {
  return static_cast<Lane>(lane + connection * kLanesOfGroup);
}

}  // namespace cohort
