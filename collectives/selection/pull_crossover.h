// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace cohort {

/// What an all_gather between private buffers took both ways, on the slowest rank.
struct PullTimes {
  std::size_t bytes = 0;  ///< of a block: what one rank reads of another in one go
  double staged_us = 0;   ///< through the CCL buffers
  double pulled_us = 0;   ///< the kernel copies from process to process
};

/// From which size on the kernel copies between private buffers of ranks of one host. Measured when the
/// communicator is made, by the ranks together, and the same on all of them.
class PullCrossover {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr std::array<std::size_t, 2> kSizes = {64 * 1024, 256 * 1024};
  /// Several ranks that pull from one process get into each other's way in the kernel: it must be clearly
  /// faster.
  static constexpr double kLeastGain = 1.3;

  [[nodiscard]] std::size_t from_bytes() const noexcept { return from_bytes_; }
  [[nodiscard]] const std::vector<PullTimes>& measured() const noexcept { return measured_; }

  /// Takes the times of rising sizes: pulling begins at the first size from which on it always won clearly.
  void take(const std::vector<PullTimes>& measured);
  /// Instead of measuring.
  void set_from(std::size_t bytes) noexcept { from_bytes_ = bytes; }

 private:
  std::size_t from_bytes_ = kNever;
  std::vector<PullTimes> measured_;
};

}  // namespace cohort
