// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/membership.h>

#include <cohort/engine/system/autogroup.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
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

double Membership::engines_per_core() const {
  std::set<std::uint64_t> seen;
  CoreSet of_all;
  std::size_t on_own_cores = 0;
  for (const PeerInfo& peer : peers) {
    if (!shares_machine(peer.rank)) continue;
    if (!seen.insert(peer.engine).second) continue;
    of_all |= peer.cores;
    on_own_cores += (peer.cores & ~self().cores).none() ? 1 : 0;
  }
  return std::max(ratio(seen.size(), of_all), ratio(on_own_cores, self().cores));
}

std::optional<std::size_t> Membership::own_core(std::span<const unsigned> order) const {
  CoreSet taken;
  std::size_t own = 0;
  for (const PeerInfo& peer : peers) {
    if (!shares_machine(peer.rank)) continue;
    const auto is_left = [&](unsigned core) { return peer.cores.test(core) && !taken.test(core); };
    const auto core = std::ranges::find_if(order, is_left);
    if (core == order.end()) return std::nullopt;
    taken.set(*core);
    if (peer.rank == rank) own = *core;
  }
  return own;
}

CoreSupply Membership::core_supply() const {
  std::array<unsigned, kMostCores> numbers{};
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (!own_core(numbers)) return CoreSupply::shared;
  return cores_of_machine().count() >= 2 * ranks_of_machine() ? CoreSupply::idle : CoreSupply::one_each;
}

std::size_t Membership::ranks_of_host() const {
  return static_cast<std::size_t>(std::ranges::count(peers, self().host_id, &PeerInfo::host_id));
}

std::size_t Membership::ranks_of_machine() const {
  return static_cast<std::size_t>(std::ranges::count(peers, self().machine_id, &PeerInfo::machine_id));
}

CoreSet Membership::cores_of_machine() const {
  CoreSet cores;
  for (const PeerInfo& peer : peers)
    if (shares_machine(peer.rank)) cores |= peer.cores;
  return cores;
}

bool Membership::is_any_apart() const {
  if (!are_processes_seen) return false;
  const std::string own = autogroup_of(self().visible_process);
  return std::ranges::any_of(peers, [&](const PeerInfo& peer) {
    if (!shares_machine(peer.rank)) return false;
    if (!shares_host(peer.rank) || peer.visible_process == 0) return true;
    return !own.empty() && autogroup_of(peer.visible_process) != own;
  });
}

}  // namespace cohort
