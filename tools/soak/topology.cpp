// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/topology.h>

#include <cohort/engine/error.h>
#include <cohort/tools/soak/events.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::soak {
namespace {

/// A day at most: what is longer never comes.
Duration duration_of(double nanoseconds) {
  constexpr double kDay = 86'400e9;
  return Duration(static_cast<Duration::rep>(std::min(nanoseconds, kDay)));
}

}  // namespace

Rank least_ranks(const sim::Topology& topology) {
  const Rank named = sim::ranks_named(topology.faults);
  if (named > kMostRanksOfTopology)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("the faults of the topology name rank {}; jobs of cohort soak have up to {} ranks: "
                    "name ranks below that",
                    named - 1, kMostRanksOfTopology));
  return std::max<Rank>(named, 2);
}

void settle(const sim::Topology& topology, Job& job) {
  sim::check(topology, job.ranks);
  world::Settings& world = job.world;
  const std::vector<Rank> bounds = sim::host_bounds(topology, job.ranks);
  for (unsigned host = 0; host + 1 < bounds.size(); ++host)
    for (Rank rank = bounds[host]; rank < bounds[host + 1]; ++rank)
      world.host_of[rank] = topology.has_shared_memory ? host : rank;
  world.inside_latency = duration_of(topology.inside.latency_ns);
  world.outside_latency = duration_of(topology.network.latency_ns);
  world.bytes_per_ns = topology.network.gigabytes_per_second;
  world.slow.clear();
  world.degraded.clear();
  for (const sim::SlowRank& slow : topology.faults.slow_ranks) world.slow.push_back({slow.rank, slow.factor});
  for (const sim::DegradedLink& link : topology.faults.degraded_links)
    world.degraded.push_back({link.from, link.to, link.bandwidth_factor, link.latency_factor});
  for (const sim::LostLink& link : topology.faults.lost_links)
    world.lost.push_back({link.from, link.to, link.step, duration_of(link.at_ns)});
  for (const sim::DeadRank& dead : topology.faults.dead_ranks)
    world.dead.push_back({.process = dead.rank, .step = dead.step, .since_mark = true});
}

void draw_deeds(world::Random& random, const sim::Topology& topology, Job& job) {
  for (const sim::LateRank& late : topology.faults.late_ranks)
    job.late.push_back({.rank = late.rank, .by = duration_of(late.by_ns)});
  for (const Lateness& late : job.late) job.world.longest += late.by;
  allow_for_lateness(job);
  const auto& cancelled = topology.faults.cancelled_operations;
  if (cancelled.empty()) return;
  const sim::CancelledOperation& one = cancelled[random.below(cancelled.size())];
  const std::size_t calls = job.communicators[0].calls.size();
  job.deed = Deed{.kind = Deed::Kind::cancels,
                  .rank = one.rank,
                  .communicator = 0,
                  .call = static_cast<std::size_t>(std::min<std::uint64_t>(one.step, calls) - 1),
                  .after = std::chrono::microseconds(random.between(0, 300))};
}

}  // namespace cohort::soak
