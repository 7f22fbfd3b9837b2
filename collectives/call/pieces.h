// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>

#include <algorithm>
#include <concepts>

namespace cohort {

/// The bytes of one piece of a message: at most `largest`, but for a grain of elements that divides well.
[[nodiscard]] inline std::size_t piece_bytes(std::size_t message_bytes, std::size_t element_bytes,
                                             std::size_t largest) noexcept {
  const std::size_t grain = element_bytes * 64;
  return std::min(message_bytes, std::max(grain, largest / grain * grain));
}

/// Runs the schedule once for each piece of the message; at least once.
template <class Op>
[[nodiscard]] Task<> run_in_pieces(const Algorithm<Op>& algorithm, Exec& x, Op op, std::size_t piece) {
  if constexpr (std::same_as<Op, Barrier>) {
    co_await algorithm.schedule(x, op);
  } else {
    const std::size_t bytes = op.size_bytes();
    std::size_t at = 0;
    do {
      const Op part = op.part(at, std::min(piece, bytes - at));
      co_await algorithm.schedule(x, part);
      at += piece;
    } while (at < bytes);
  }
}

}  // namespace cohort
