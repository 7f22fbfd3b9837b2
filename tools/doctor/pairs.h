// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>
#include <cohort/tools/doctor/finding.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cohort::doctor {

/// How far a measurement between two hosts came.
enum class Stage : std::uint32_t { none, connecting, small_messages, large_messages, done };

/// What was measured between two hosts, by the first of them. Sent as it lies.
struct Pair {
  std::uint32_t first = 0;  ///< hosts by their number
  std::uint32_t second = 0;
  Stage stage = Stage::none;  ///< the one that was not finished, or done; none: nothing was to be measured
  std::uint32_t mtu = 0;      ///< of the path, as the kernel of the first knows it
  double latency_us = 0;      ///< half a round trip, the median
  double there_mbit_per_s = 0;
  double back_mbit_per_s = 0;
  double clock_ms = 0;  ///< how far the second one's clock is ahead
};

/// Whom each of `hosts` meets in each round, so that all pairs have met after as few rounds as can be, and no
/// host is in two pairs at a time. A host that meets itself has a rest.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> tournament(std::uint32_t hosts);

/// What is wrong between hosts of these names, and a line of what there is.
void judge(std::span<const Pair> pairs, std::span<const std::string> hosts, Findings& findings);

}  // namespace cohort::doctor
