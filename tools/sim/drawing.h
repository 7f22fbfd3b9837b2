// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/simulate.h>

#include <string>
#include <vector>

namespace cohort::sim {

/// What one algorithm takes for each size.
struct Curve {
  std::string name;
  std::vector<std::size_t> bytes;
  std::vector<Prediction> predictions;

  /// Null: not for this size.
  [[nodiscard]] const Prediction* at(std::size_t size) const;
};

/// An SVG: time over size for each algorithm, a colour and a mark for each, both logarithmic, and below for
/// each algorithm how busy the busiest ports, NICs and uplinks were at the largest size.
[[nodiscard]] std::string draw(const std::string& title, const std::vector<Curve>& curves);

}  // namespace cohort::sim
