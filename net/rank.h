// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cohort {

/// One participant of a communicator, 0 to size - 1.
using Rank = std::uint32_t;

/// One of several independent ordered paths to the same peer; an algorithm uses as many as it has parallel
/// streams.
using Lane = std::uint16_t;

/// Paths that a link table has room for. More lanes than cores bring nothing on one host.
inline constexpr Lane kMostLanes = 4;

/// What a rank calls a group that it is in, from 1; 0: the communicator that was joined. Other members have
/// numbers of their own for it.
using GroupNumber = std::uint16_t;
inline constexpr GroupNumber kMostGroups = 9'000;

/// A data connection's name between two ranks: the lane of a link, or one of those behind them, of the
/// communicator that was joined or of a group in it.
using Path = std::uint16_t;
inline constexpr Lane kMessageLane = kMostLanes;     ///< for send() and recv()
inline constexpr Lane kBulkLane = kMessageLane + 1;  ///< for what is large of these
inline constexpr Lane kUpgradeLane = kBulkLane + 1;  ///< to make what small ones go on on
inline constexpr Path kPathsOfGroup = kMostLanes + 3;
inline constexpr Path kMostPaths = static_cast<Path>((kMostGroups + 1) * kPathsOfGroup);
static_assert(kMostPaths == (kMostGroups + 1) * kPathsOfGroup);
[[nodiscard]] constexpr Path path_of(GroupNumber group, Lane lane) noexcept {
  return static_cast<Path>(group * kPathsOfGroup + lane);
}

}  // namespace cohort
