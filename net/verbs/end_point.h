// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/library.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort::verbs {

/// Queue pairs of a connection: as many as the two ends both have.
inline constexpr std::uint32_t kMostPairs = 16;

/// What the two ends of a connection tell each other about theirs, over an authenticated connection.
struct EndPoint {
  static constexpr std::size_t kBytes = 172;

  static constexpr std::uint32_t kMostNumber = (1U << 24) - 1;  ///< of pairs and packets

  struct Pair {
    std::uint32_t number = 0;
    std::uint32_t packet = 0;  ///< the first packet's number
  };
  std::array<Pair, kMostPairs> pairs{};  ///< the first has the rings, the others only read
  std::uint16_t pair_count = 1;          ///< of them, at least one
  std::uint16_t reads = 1;               ///< of its memory that it lets each be under way, at most kMostLoans
  std::uint32_t key = 0;                 ///< of the ring
  std::uint64_t ring = 0;                ///< its address there
  std::uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_gid gid{};
};
/// Little-endian.
[[nodiscard]] std::array<std::byte, EndPoint::kBytes> encode(const EndPoint& end) noexcept;
/// Throws ProtocolError for anything that encode() does not write, another ring's size included.
[[nodiscard]] EndPoint decode(std::span<const std::byte, EndPoint::kBytes> bytes);

}  // namespace cohort::verbs
