// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace cohort::sim {

/// Virtual time, in picoseconds.
using Time = std::int64_t;

inline constexpr double kPicosecondsPerNanosecond = 1e3;
inline constexpr double kPicosecondsPerMicrosecond = 1e6;

[[nodiscard]] inline Time from_nanoseconds(double nanoseconds) noexcept {
  return std::llround(nanoseconds * kPicosecondsPerNanosecond);
}
[[nodiscard]] inline double in_microseconds(Time time) noexcept {
  return static_cast<double>(time) / kPicosecondsPerMicrosecond;
}
/// What a byte takes; 0 for a speed of 0, which stands for no time at all.
[[nodiscard]] inline double picoseconds_per_byte(double gigabytes_per_second) noexcept {
  return gigabytes_per_second == 0 ? 0 : kPicosecondsPerNanosecond / gigabytes_per_second;
}
[[nodiscard]] inline Time for_bytes(double bytes, double picoseconds_per_byte) noexcept {
  // Never negative, and std::llround is a call.
  return static_cast<Time>(bytes * picoseconds_per_byte + 0.5);  // NOLINT(bugprone-incorrect-roundings)
}

}  // namespace cohort::sim
