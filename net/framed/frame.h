// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/link.h>
#include <cohort/net/link_owner.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cohort::framed {

enum class FrameType : std::uint8_t {
  signal = 1,  ///< one count of a signal
  put,         ///< bytes for a place in the receiver's window, then one count of a signal
  get,         ///< asks for bytes of a place in the receiver's window
  get_reply,   ///< those bytes
  data,        ///< bytes for the receiver's next recv
};
std::string_view to_string(FrameType type) noexcept;

/// What stands before the bytes of every message on a framed link: whose it is, in which collective, and
/// where it belongs.
struct FrameHeader {
  FrameType type = FrameType::signal;
  Signal signal = Signal::Ack;       ///< of signal and put
  WindowId window = WindowId::send;  ///< of put and get
  Lane lane = 0;
  Rank source = 0;
  std::uint64_t sequence = 0;  ///< the collective's number
  Signature signature;         ///< the collective's
  std::uint64_t offset = 0;    ///< of put and get, in the window
  std::uint64_t bytes = 0;     ///< that follow, or, of get, that are asked for
  bool operator==(const FrameHeader&) const = default;
};

inline constexpr std::size_t kFrameBytes = 64;
using FrameBytes = std::array<std::byte, kFrameBytes>;

/// Little-endian: magic 4, version 1, type 1, signal 1, window 1, lane 2, zero 2, source 4, sequence 8,
/// signature 16, offset 8, bytes 8, zero 8. A pure function.
[[nodiscard]] FrameBytes encode(const FrameHeader& header) noexcept;

/// Throws ProtocolError, naming what was expected and what came, for anything that encode() does not write.
[[nodiscard]] FrameHeader decode(std::span<const std::byte, kFrameBytes> bytes);

}  // namespace cohort::framed
