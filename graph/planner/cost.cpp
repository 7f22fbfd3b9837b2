// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/cost.h>

#include <cohort/engine/error.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cohort::graph {
namespace {

double between_points(const std::vector<CostPoint>& points, std::uint64_t bytes) {
  if (points.size() == 1) return points.front().us;
  auto above = std::ranges::upper_bound(points, bytes, {}, &CostPoint::bytes);
  above = std::clamp(above, points.begin() + 1, points.end() - 1);
  const CostPoint& low = above[-1];
  const CostPoint& high = above[0];
  const double part = (static_cast<double>(bytes) - static_cast<double>(low.bytes)) /
                      static_cast<double>(high.bytes - low.bytes);
  return std::max(0.0, low.us + part * (high.us - low.us));
}

/// Weighted sums of a line's normal equations, for one of the two start-ups.
struct Sums {
  double weight = 0;
  double bytes = 0;
  double us = 0;

  void add(const CostPoint& point, double by) {
    weight += by;
    bytes += by * static_cast<double>(point.bytes);
    us += by * point.us;
  }
  [[nodiscard]] double start_up(double slope) const {
    return weight == 0 ? 0 : std::max(0.0, (us - slope * bytes) / weight);
  }
};

/// Relative errors count, so that small collectives do too.
double weight_of(const CostPoint& point) { return 1 / std::max(point.us * point.us, 1e-12); }

}  // namespace

Cost Cost::of(const LinearCost& linear) {
  return {.idle = [linear](std::uint64_t bytes) { return linear.idle(bytes); },
          .queued = [linear](std::uint64_t bytes) { return linear.queued(bytes); },
          .linear = linear};
}

Cost Cost::of(std::function<double(std::uint64_t)> function) {
  return {.idle = function, .queued = std::move(function)};
}

Cost Cost::between(std::vector<CostPoint> points, double hidden_us) {
  std::ranges::sort(points, {}, &CostPoint::bytes);
  const bool has_double = std::ranges::adjacent_find(points, {}, &CostPoint::bytes) != points.end();
  if (points.empty() || has_double)
    throw Error(ErrorKind::InvalidArgument,
                "a cost between points needs at least one point, and one for each size; give each size once");
  const auto shared = std::make_shared<const std::vector<CostPoint>>(std::move(points));
  return {.idle = [shared](std::uint64_t bytes) { return between_points(*shared, bytes); },
          .queued =
              [shared, hidden_us](std::uint64_t bytes) {
                return std::max(0.0, between_points(*shared, bytes) - hidden_us);
              }};
}

LinearCost fit(std::span<const CostPoint> single, std::span<const CostPoint> queued) {
  const auto [least, most] = std::ranges::minmax(single, {}, &CostPoint::bytes);
  if (single.size() < 2 || least.bytes == most.bytes)
    throw Error(ErrorKind::InvalidArgument,
                "a line needs collectives of two sizes at least; measure a small and a large one");
  Sums sums[2];
  double square = 0;
  double product = 0;
  for (const auto& [points, which] : {std::pair(single, 0), std::pair(queued, 1)})
    for (const CostPoint& point : points) {
      const double weight = weight_of(point);
      sums[which].add(point, weight);
      square += weight * static_cast<double>(point.bytes) * static_cast<double>(point.bytes);
      product += weight * static_cast<double>(point.bytes) * point.us;
    }
  for (const Sums& each : sums) {
    if (each.weight == 0) continue;
    square -= each.bytes * each.bytes / each.weight;
    product -= each.bytes * each.us / each.weight;
  }
  const double slope = square > 0 ? std::max(0.0, product / square) : 0;
  const double idle = sums[0].start_up(slope);
  return {.idle_us = idle, .queued_us = queued.empty() ? idle : sums[1].start_up(slope), .byte_us = slope};
}

}  // namespace cohort::graph
