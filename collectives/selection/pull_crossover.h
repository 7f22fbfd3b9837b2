// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace cohort {

/// What a collective between private buffers took both ways, on the slowest rank.
struct PullTimes {
  std::size_t bytes = 0;  ///< of a block, or a share: what one rank reads of another in one go
  double staged_us = 0;   ///< through the CCL buffers
  double pulled_us = 0;   ///< the kernel copies from process to process
};

/// From which size on the kernel copies between private buffers of ranks of one host. Measured when the
/// communicator is made, by the ranks together, and the same on all of them.
///
/// What is combined is judged by itself: staged, it is read in passing while it is combined; pulled, it is
/// written and read once more.
class PullCrossover {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr std::array<std::size_t, 2> kSizes = {64 * 1024, 256 * 1024};
  /// Several ranks that pull from one process get into each other's way in the kernel: it must be clearly
  /// faster.
  static constexpr double kLeastGain = 1.3;

  [[nodiscard]] std::size_t from_bytes() const noexcept { return from_bytes_; }
  [[nodiscard]] const std::vector<PullTimes>& measured() const noexcept { return measured_; }
  /// The same for shares of what is combined.
  [[nodiscard]] std::size_t combining_from_bytes() const noexcept { return combining_from_bytes_; }
  [[nodiscard]] const std::vector<PullTimes>& measured_combining() const noexcept {
    return measured_combining_;
  }

  /// Takes the times of rising sizes: pulling begins at the first size from which on it always won clearly.
  void take(const std::vector<PullTimes>& moving);
  /// The same for what is combined, after the other. Where that lost at every size, it begins with shares as
  /// large as a core's cache, and larger than what was measured: what was staged has left it then, and is
  /// read from afar.
  void take_combining(const std::vector<PullTimes>& combining, std::size_t core_cache_bytes);
  /// Instead of measuring; kNever where it is not allowed.
  void set_from(std::size_t bytes) noexcept {
    from_bytes_ = combining_from_bytes_ = bytes;
    is_settled_ = true;
  }
  /// Whether it was measured, or set.
  [[nodiscard]] bool is_settled() const noexcept { return is_settled_; }

 private:
  bool is_settled_ = false;
  std::size_t from_bytes_ = kNever;
  std::size_t combining_from_bytes_ = kNever;
  std::vector<PullTimes> measured_;
  std::vector<PullTimes> measured_combining_;
};

}  // namespace cohort
