// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// What a rank says in its arrival slot of its buffers and data: flags of host::ArrivalSlot::reachable.
namespace cohort::announcement {

// Where its data does not travel in the slot:
inline constexpr std::uint32_t kSendInSegment = 1;
inline constexpr std::uint32_t kRecvInSegment = 2;
inline constexpr std::uint32_t kByReference = 4;
// Where it does:
inline constexpr std::uint32_t kInPieces = 8;  ///< only the first piece is there from the beginning

}  // namespace cohort::announcement
