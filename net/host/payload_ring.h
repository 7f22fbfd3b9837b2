// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/tuning.h>
#include <algorithm>
#include <cstddef>

namespace cohort::host {

inline constexpr std::size_t kCacheLine = tuning::kCacheLine;

/// Where ranks put what travels with an arrival, unless it lies in the slot: one after the other, round and
/// round, so that a place is written again long after peers have read it; see Staging in
/// collectives/schedules for what that saves.
///
/// Of every rank's memory the same place, found by all of them from the sizes of their collectives. Two in a
/// row do not overlap: peers may still read the last one.
class PayloadRing {
 public:
  static constexpr std::size_t kMostBytes = tuning::stages::kRing;

  /// The next place of so many bytes, if the ring is the first `ring_bytes`; of a ring of less than three
  /// such places it may end behind it.
  [[nodiscard]] std::size_t take(std::size_t bytes, std::size_t ring_bytes) noexcept {
    const bool is_at_end = end_ + bytes > std::min(ring_bytes, kMostBytes);
    begin_ = is_at_end && bytes <= begin_ ? 0 : end_;
    end_ = begin_ + (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    return begin_;
  }

 private:
  // The last one:
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace cohort::host
