// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <cstdint>
#include <vector>

namespace cohort::sim {

/// All that this rank's processor does takes `factor` times as long.
struct SlowRank {
  Rank rank = 0;
  double factor = 1;
};
/// The way between two ranks, in both directions, has less bandwidth and more latency.
struct DegradedLink {
  Rank from = 0;
  Rank to = 0;
  double bandwidth_factor = 1;  ///< of the bandwidth that is left: 0.5 is half of it
  double latency_factor = 1;
};
/// What `from` sends to `to` is lost, from message number `step` on (1 is the first) and not before `at_ns`:
/// a link that goes down at a moment.
struct LostLink {
  Rank from = 0;
  Rank to = 0;
  std::uint64_t step = 1;
  double at_ns = 0;
};
/// The rank begins so much later than the others.
struct LateRank {
  Rank rank = 0;
  double by_ns = 0;
};
/// The rank stops for ever in its link operation number `step` (1 is the first).
struct DeadRank {
  Rank rank = 0;
  std::uint64_t step = 1;
};
/// The rank gives its collective up in its link operation number `step` (1 is the first).
struct CancelledOperation {
  Rank rank = 0;
  std::uint64_t step = 1;
};

/// What goes wrong, and when.
struct Faults {
  std::vector<SlowRank> slow_ranks;
  std::vector<LateRank> late_ranks;
  std::vector<DegradedLink> degraded_links;
  std::vector<LostLink> lost_links;
  std::vector<DeadRank> dead_ranks;
  std::vector<CancelledOperation> cancelled_operations;
};

/// A key for what is known of the way from one rank to another.
[[nodiscard]] constexpr std::uint64_t pair_of(Rank from, Rank to) noexcept {
  return std::uint64_t{from} << 32 | to;
}

/// The highest rank that any of them names, and 1 more; 0 if there are none.
[[nodiscard]] Rank ranks_named(const Faults& faults) noexcept;

/// Throws InvalidArgument for faults that make no sense among so many ranks.
void check(const Faults& faults, Rank ranks);

}  // namespace cohort::sim
