// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace cohort::graph {

/// start-up + bytes * byte_us, in microseconds; where a collective is queued right behind another one, much
/// of its start-up hides behind that.
struct LinearCost {
  double idle_us = 0;    ///< start-up where the link was idle
  double queued_us = 0;  ///< start-up behind another collective
  double byte_us = 0;

  [[nodiscard]] double idle(std::uint64_t bytes) const {
    return idle_us + byte_us * static_cast<double>(bytes);
  }
  [[nodiscard]] double queued(std::uint64_t bytes) const {
    return queued_us + byte_us * static_cast<double>(bytes);
  }
};

struct CostPoint {
  std::uint64_t bytes = 0;
  double us = 0;
};

/// What a collective of so many bytes takes, in microseconds: any function, and its linear form where it has
/// one, for which planning is faster. From 0 bytes on, not negative.
struct Cost {
  std::function<double(std::uint64_t)> idle;    ///< where the link was idle
  std::function<double(std::uint64_t)> queued;  ///< right behind another collective
  std::optional<LinearCost> linear{};

  [[nodiscard]] static Cost of(const LinearCost& linear);
  /// The same for both.
  [[nodiscard]] static Cost of(std::function<double(std::uint64_t)> function);
  /// Straight between measured points, and on beyond them. `hidden_us` less where it is queued. Throws
  /// InvalidArgument for no point, or two of the same bytes.
  [[nodiscard]] static Cost between(std::vector<CostPoint> points, double hidden_us = 0);
};

/// The line nearest to single and to queued collectives, by relative squares: one slope, two start-ups, none
/// below zero. Throws InvalidArgument for fewer than two sizes of single ones.
[[nodiscard]] LinearCost fit(std::span<const CostPoint> single, std::span<const CostPoint> queued);

}  // namespace cohort::graph
