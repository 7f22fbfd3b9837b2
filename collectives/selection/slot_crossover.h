// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/engine/tuning.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// What one size took, both ways, on the slowest rank; no longer than a larger size did, which was disturbed.
struct SlotTimes {
  Operator op;
  std::size_t bytes = 0;  ///< that a rank puts into its slot
  double slots_us = 0;    ///< in slots: every rank reads every slot
  double direct_us = 0;   ///< direct: through the CCL buffers, one phase more, less to combine
};

/// Up to which size small messages between ranks of one host travel in the arrival slots, by operator.
/// Measured when the communicator is made, by the ranks together, and the same on all of them.
class SlotCrossover {
 public:
  /// Before anything was measured.
  static constexpr std::size_t kUnmeasuredBytes = tuning::slots::kUnmeasured;
  /// What is measured: from the size where more cache lines than fit a few fetches travel, to a full slot.
  static constexpr std::array<std::size_t, 6> kSizes = {4 * 1024,  16 * 1024,  32 * 1024,
                                                        64 * 1024, 128 * 1024, tuning::slots::kMostBytes};
  /// Of that operator: what is combined is best shared out long before, where all ranks map all of it.
  [[nodiscard]] static constexpr std::span<const std::size_t> sizes_of(const OperatorInfo& op) noexcept {
    return std::span(kSizes).first(kSizes.size() - (op.combines ? 1 : 0));
  }
  /// Where slots take so much longer, larger sizes need not be measured.
  static constexpr double kIsLost = tuning::choosing::kLost;
  /// From this size on they have to be so much faster between the private buffers that are measured: between
  /// mapped ones they do at best what `direct` does, and where ranks share cores some still copy.
  static constexpr std::size_t kClearFromBytes = tuning::slots::kClearFrom;
  static constexpr double kIsClear = tuning::slots::kClear;

  SlotCrossover() { most_bytes_.fill(kUnmeasuredBytes); }

  /// An operator with counts of its own has the limit of the one without. One for which the time was too
  /// short has the least limit of those that were measured to their end: of those that combine, if it does,
  /// and else of those that do not.
  [[nodiscard]] std::size_t most_bytes(Operator op) const noexcept { return most_bytes_[op.index()]; }
  [[nodiscard]] const std::vector<SlotTimes>& measured() const noexcept { return measured_; }
  /// What a call of that size takes, on the line between the two measured sizes around it; nothing outside
  /// of what was measured.
  [[nodiscard]] std::optional<SlotTimes> times_of(Operator op, std::size_t bytes) const noexcept;

  /// Takes the sizes of one operator, in rising order: slots serve up to the last size before the first at
  /// which they lose; below the smallest size if they lose there already; where they never lose, at least up
  /// to kUnmeasuredBytes.
  void take(const std::vector<SlotTimes>& as_measured);
  /// The same of one that may have been taken before: of each time the least counts, which nothing disturbed.
  void renew(const std::vector<SlotTimes>& as_measured);
  /// Whether its own times say up to where slots serve.
  [[nodiscard]] bool is_measured(Operator op) const noexcept { return limits_[op.index()].is_measured; }

 private:
  /// Gives the limits of what was measured to those that were not.
  void share_limits() noexcept;

  /// What an operator's own times say.
  struct Limit {
    std::size_t bytes = kUnmeasuredBytes;
    bool is_measured = false;
    bool is_whole = false;  ///< up to where slots lose, or to the largest size
  };

  std::array<Limit, kOperators> limits_{};
  std::array<std::size_t, kOperators> most_bytes_{};
  std::vector<SlotTimes> measured_;
};

}  // namespace cohort
