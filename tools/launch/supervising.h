// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <chrono>
#include <cstddef>

/// What supervising the ranks of a host, and the agents of several hosts, have in common.
namespace cohort::supervising {

inline constexpr int kTimeoutStatus = 124;
inline constexpr int kNoReaderStatus = 141;  // 128 + SIGPIPE
inline constexpr int kSignalStatus = 128;
inline constexpr int kLostOutputStatus = 1;
inline constexpr int kCannotStartStatus = 127;

inline constexpr std::size_t kScratchBytes = 64 * 1024;
/// What somebody wrote last should stand before the words about its end.
inline constexpr Duration kLastWords = std::chrono::milliseconds(500);
inline constexpr Duration kFromKillToStop = std::chrono::milliseconds(100);

/// Whether the moment has come; it is then no longer planned.
[[nodiscard]] inline bool is_due(TimePoint& moment, TimePoint now) noexcept {
  if (now < moment) return false;
  moment = kNever;
  return true;
}

[[nodiscard]] inline double seconds(Duration duration) noexcept {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace cohort::supervising
