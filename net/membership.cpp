// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/membership.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace cohort {

std::string PeerInfo::describe() const {
  if (world_rank) return fmt::format("rank {} (world rank {}, {}, pid {})", rank, *world_rank, host, process);
  return fmt::format("rank {} ({}, pid {})", rank, host, process);
}

namespace {

double ratio(std::size_t engines, const CoreSet& cores) {
  return static_cast<double>(engines) / static_cast<double>(std::max<std::size_t>(cores.count(), 1));
}

}  // namespace

std::vector<const PeerInfo*> Membership::engines_of_host() const {
  std::set<EngineId> seen;
  std::vector<const PeerInfo*> engines;
  for (const PeerInfo& peer : peers)
    if (shares_host(peer.rank) && seen.insert(engine_of(peer)).second) engines.push_back(&peer);
  return engines;
}

Membership::EngineId Membership::engine_of(const PeerInfo& peer) const {
  const std::uint64_t unseen = are_processes_seen ? peer.incarnation : peer.process;
  return {peer.visible_process != 0 ? peer.visible_process : unseen, peer.engine};
}

double Membership::engines_per_core() const {
  const std::vector<const PeerInfo*> engines = engines_of_host();
  CoreSet of_all;
  std::size_t on_own_cores = 0;
  for (const PeerInfo* engine : engines) {
    of_all |= engine->cores;
    on_own_cores += (engine->cores & ~self().cores).none() ? 1 : 0;
  }
  return std::max(ratio(engines.size(), of_all), ratio(on_own_cores, self().cores));
}

std::optional<std::size_t> Membership::own_core() const { return core_of(engine_of(self())); }

bool Membership::has_core_each() const { return core_of(engine_of(*engines_of_host().back())).has_value(); }

std::optional<std::size_t> Membership::core_of(const EngineId& wanted) const {
  CoreSet taken;
  for (const PeerInfo* engine : engines_of_host()) {
    const CoreSet left = engine->cores & ~taken;
    if (left.none()) return std::nullopt;
    std::size_t core = 0;
    while (!left.test(core)) ++core;
    if (engine_of(*engine) == wanted) return core;
    taken.set(core);
  }
  return std::nullopt;
}

bool Membership::has_idle_cores() const {
  CoreSet of_all;
  std::size_t ranks = 0;
  for (const PeerInfo& peer : peers) {
    if (!shares_host(peer.rank)) continue;
    of_all |= peer.cores;
    ++ranks;
  }
  return of_all.count() >= 2 * ranks;
}

}  // namespace cohort
