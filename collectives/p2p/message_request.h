// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/net/rank.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort {

/// One send() or recv() as the caller asked for it.
struct MessageRequest {
  static constexpr Rank kAnybody = ~Rank{0};

  bool sends = false;
  Rank peer = 0;
  std::int32_t tag = 0;
  std::byte* data = nullptr;  ///< only read by a send
  std::size_t bytes = 0;
  Duration timeout{0};  ///< zero: the communicator's

  [[nodiscard]] std::span<const std::byte> memory() const noexcept { return {data, bytes}; }
};

}  // namespace cohort
