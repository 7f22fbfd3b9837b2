// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/planner.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace cohort::test {

using Random = std::mt19937_64;

inline double uniform(Random& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}
inline std::uint64_t whole(Random& random, std::uint64_t least, std::uint64_t most) {
  return std::uniform_int_distribution<std::uint64_t>(least, most)(random);
}

/// Some ready at once, some far apart, some of no bytes.
inline std::vector<graph::Item> random_items(Random& random, std::size_t count) {
  std::vector<graph::Item> items;
  double ready = uniform(random, 0, 50);
  for (std::size_t i = 0; i < count; ++i) {
    items.push_back({.name = fmt::format("g{}", i), .ready_us = ready, .bytes = whole(random, 0, 4000)});
    if (whole(random, 0, 3) != 0) ready += uniform(random, 0, 40);
  }
  return items;
}

inline graph::LinearCost random_line(Random& random) {
  const double idle = uniform(random, 0, 60);
  return {.idle_us = idle,
          .queued_us = whole(random, 0, 2) == 0 ? idle : uniform(random, 0, idle),
          .byte_us = uniform(random, 0, 0.02)};
}

/// Jumps up and down: nothing that a faster programme could use.
inline graph::Cost random_cost(Random& random) {
  const std::uint64_t seed = random();
  const auto noise = [seed](std::uint64_t bytes) {
    std::uint64_t x = (bytes + seed) * 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29U;
    return static_cast<double>(x % 1000) / 10;
  };
  return {.idle = [noise](std::uint64_t bytes) { return noise(bytes); },
          .queued = [noise](std::uint64_t bytes) { return noise(bytes + 1) / 2; }};
}

inline graph::Limits random_limits(Random& random) {
  graph::Limits limits;
  if (whole(random, 0, 1) == 0) limits.bucket_bytes = whole(random, 1, 12000);
  if (whole(random, 0, 1) == 0) limits.min_tensor_bytes = whole(random, 1, 6000);
  if (whole(random, 0, 1) == 0) limits.max_group_size = whole(random, 1, 6);
  return limits;
}

}  // namespace cohort::test
