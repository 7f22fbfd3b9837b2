// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cohort::bench {

/// What was measured of one operator over the sizes.
struct MeasuredCurve {
  std::string name;
  std::vector<double> bytes;
  std::vector<double> median_us;
  std::vector<double> bus_gb_per_s;
};

/// An SVG of two pictures, one below the other: time over size, and bus bandwidth over size, all axes
/// logarithmic, a colour for each operator.
[[nodiscard]] std::string draw_chart(const std::string& title, const std::vector<MeasuredCurve>& curves);

}  // namespace cohort::bench
