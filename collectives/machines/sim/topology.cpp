// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/topology.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace cohort::sim {
namespace {

void require(bool is_right, const std::string& text) {
  if (!is_right) throw Error(ErrorKind::InvalidArgument, "topology: " + text);
}

void check(std::string_view name, const LinkModel& speed) {
  const double least =
      std::min({speed.latency_ns, speed.message_ns, speed.gap_ns, speed.core_gigabytes_per_second});
  require(speed.gigabytes_per_second > 0 && least >= 0,
          fmt::format("{} needs a bandwidth above 0, and nothing below 0", name));
}

/// Hosts without any would never add up to the ranks there are.
void check_ranks_of_hosts(const Topology& topology) {
  require(topology.ranks_per_host > 0, "ranks_per_host starts at 1");
  require(std::ranges::find(topology.ranks_of_hosts, Rank{0}) == topology.ranks_of_hosts.end(),
          "a host of ranks_of_hosts has at least 1 rank");
}

/// Of all NICs of each host, in parts of the largest.
std::vector<std::uint32_t> bandwidths_of(const Topology& topology, const std::vector<Rank>& bounds) {
  std::vector<double> of_host;
  for (Rank host = 0; host + 1 < bounds.size(); ++host)
    of_host.push_back(gigabytes_per_second_of(topology, host) *
                      rails_of(topology, bounds[host + 1] - bounds[host]));
  const double most = *std::ranges::max_element(of_host);
  std::vector<std::uint32_t> parts;
  for (const double one : of_host)
    parts.push_back(std::max(1U, static_cast<std::uint32_t>(one / most * kMostHostBandwidth)));
  return parts;
}

}  // namespace

double gigabytes_per_second_of(const Topology& topology, Rank host) {
  const std::vector<double>& first = topology.gigabytes_per_second_of_hosts;
  return host < first.size() ? first[host] : topology.network.gigabytes_per_second;
}

std::uint32_t rails_of(const Topology& topology, Rank ranks_of_host) {
  return topology.rails == 0 ? ranks_of_host : topology.rails;
}

std::vector<Rank> host_bounds(const Topology& topology, Rank ranks) {
  check_ranks_of_hosts(topology);
  std::vector<Rank> bounds{0};
  for (std::size_t host = 0; bounds.back() < ranks; ++host) {
    const bool is_listed = host < topology.ranks_of_hosts.size();
    const Rank here = is_listed ? topology.ranks_of_hosts[host] : topology.ranks_per_host;
    bounds.push_back(bounds.back() + std::min(here, ranks - bounds.back()));
  }
  return bounds;
}

Rank most_ranks_of_a_host(const Topology& topology, Rank ranks) {
  const std::vector<Rank> bounds = host_bounds(topology, ranks);
  Rank most = 0;
  for (std::size_t host = 0; host + 1 < bounds.size(); ++host)
    most = std::max(most, bounds[host + 1] - bounds[host]);
  return most;
}

Hosts hosts_of(const Topology& topology, Rank ranks) {
  if (!topology.has_shared_memory) return Hosts::apart(ranks);
  const std::vector<Rank> bounds = host_bounds(topology, ranks);
  std::vector<Rank> host_of;
  for (Rank host = 0; host + 1 < bounds.size(); ++host) host_of.resize(bounds[host + 1], host);
  const Hosts hosts = Hosts(host_of).below_switches(topology.hosts_per_switch);
  const bool do_differ = topology.is_bandwidth_known && !topology.gigabytes_per_second_of_hosts.empty();
  return do_differ ? hosts.with_bandwidths(bandwidths_of(topology, bounds)) : hosts;
}

bool has_one_host(const Topology& topology, Rank ranks) {
  const Rank first = topology.ranks_of_hosts.empty() ? topology.ranks_per_host : topology.ranks_of_hosts[0];
  return ranks <= first;
}

bool has_one_memory(const Topology& topology, Rank ranks) {
  return topology.has_shared_memory && has_one_host(topology, ranks);
}

void check(const Topology& t, Rank ranks) {
  require(ranks >= 2, fmt::format("{} ranks: at least 2 are needed", ranks));
  check_ranks_of_hosts(t);
  require(t.oversubscription > 0, "oversubscription is above 0");
  require(std::min({t.copy_gigabytes_per_second, t.reduce_gigabytes_per_second, t.switch_latency_ns,
                    t.core_switch_ns}) >= 0,
          "speeds and latencies are at least 0");
  check("inside", t.inside);
  check("network", t.network);
  for (const double rate : t.gigabytes_per_second_of_hosts)
    require(rate > 0, "a host of gigabytes_per_second_of_hosts has a bandwidth above 0");
  check(t.faults, ranks);
}

}  // namespace cohort::sim
