// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/faults.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace cohort::sim {
namespace {

void require(bool is_right, std::string_view member, std::string_view text) {
  if (!is_right) throw Error(ErrorKind::InvalidArgument, fmt::format("faults: {}: {}", member, text));
}

void require_rank(std::string_view member, Rank rank, Rank ranks) {
  require(rank < ranks, member, fmt::format("names rank {} of {} ranks", rank, ranks));
}

/// A day: what is later never comes, and picoseconds of it fit into a Time.
void require_time(std::string_view member, std::string_view name, double nanoseconds) {
  constexpr double kDay = 86'400e9;
  require(nanoseconds >= 0 && nanoseconds <= kDay, member,
          fmt::format("{} is {} ns; 0 to {} are possible", name, nanoseconds, kDay));
}

void require_step(std::string_view member, std::uint64_t step) {
  require(step > 0, member, "step starts at 1");
}

}  // namespace

Rank ranks_named(const Faults& faults) noexcept {
  Rank end = 0;
  const auto note = [&](Rank rank) { end = std::max(end, rank + 1); };
  for (const SlowRank& slow : faults.slow_ranks) note(slow.rank);
  for (const LateRank& late : faults.late_ranks) note(late.rank);
  for (const DegradedLink& link : faults.degraded_links) note(std::max(link.from, link.to));
  for (const LostLink& link : faults.lost_links) note(std::max(link.from, link.to));
  for (const DeadRank& dead : faults.dead_ranks) note(dead.rank);
  for (const CancelledOperation& cancelled : faults.cancelled_operations) note(cancelled.rank);
  return end;
}

void check(const Faults& faults, Rank ranks) {
  for (const SlowRank& slow : faults.slow_ranks) {
    require_rank("slow_ranks", slow.rank, ranks);
    require(slow.factor > 0, "slow_ranks", "factor is above 0");
  }
  for (const LateRank& late : faults.late_ranks) {
    require_rank("late_ranks", late.rank, ranks);
    require_time("late_ranks", "by_ns", late.by_ns);
  }
  for (const DegradedLink& link : faults.degraded_links) {
    require_rank("degraded_links", std::max(link.from, link.to), ranks);
    require(link.bandwidth_factor > 0 && link.latency_factor > 0, "degraded_links", "factors are above 0");
  }
  for (const LostLink& link : faults.lost_links) {
    require_rank("lost_links", std::max(link.from, link.to), ranks);
    require_step("lost_links", link.step);
    require_time("lost_links", "at_ns", link.at_ns);
  }
  for (const DeadRank& dead : faults.dead_ranks) {
    require_rank("dead_ranks", dead.rank, ranks);
    require_step("dead_ranks", dead.step);
  }
  for (const CancelledOperation& cancelled : faults.cancelled_operations) {
    require_rank("cancelled_operations", cancelled.rank, ranks);
    require_step("cancelled_operations", cancelled.step);
  }
}

}  // namespace cohort::sim
