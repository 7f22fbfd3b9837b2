// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace cohort {

/// One participant of a communicator, 0 to size - 1.
using Rank = std::uint32_t;

/// One of several independent ordered paths to the same peer; an algorithm uses as many as it has parallel
/// streams.
using Lane = std::uint16_t;

/// Paths that a link table has room for: one for each direction of a ring or tree; more bring nothing.
inline constexpr Lane kMostLanes = 2;

/// What a rank calls a group that it is in, from 1; 0: the communicator that was joined. Other members have
/// numbers of their own for it. No rank uses one twice, so whatever bears that of a group which is over, such
/// as a connection that comes late, is never taken for the next group's.
using GroupNumber = std::uint32_t;
/// That a rank is in at a time.
inline constexpr std::size_t kMostGroups = 9'000;

inline constexpr Lane kMessageLane = kMostLanes;     ///< for send() and recv()
inline constexpr Lane kBulkLane = kMessageLane + 1;  ///< for what is large of these
inline constexpr Lane kUpgradeLane = kBulkLane + 1;  ///< to make what small ones go on on
/// Of a communicator: those of links, and what is behind them.
inline constexpr Lane kLanesOfGroup = kUpgradeLane + 1;

/// A data connection's name between two ranks: whose it is, as the rank that connects numbers it, and which
/// of its lanes.
struct Path {
  GroupNumber group = 0;
  Lane lane = 0;
  auto operator<=>(const Path&) const = default;
};

}  // namespace cohort
