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

}  // namespace cohort
