// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/network.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::sim {
Network::Way::Way(const LinkModel& speed) noexcept
    : latency(from_nanoseconds(speed.latency_ns)),
      message_work(from_nanoseconds(speed.message_ns)),
      core_picoseconds_per_byte(picoseconds_per_byte(speed.core_gigabytes_per_second)),
      header_bytes(speed.header_bytes) {}

Network::Network(const Topology& topology, Rank ranks)
    : inside_(topology.inside),
      network_(topology.network),
      switch_latency_(from_nanoseconds(topology.switch_latency_ns)) {
  const auto carrier = [](const LinkModel& speed) {
    return Carrier{.picoseconds_per_byte = picoseconds_per_byte(speed.gigabytes_per_second),
                   .gap = from_nanoseconds(speed.gap_ns)};
  };
  const std::vector<Rank> bounds = host_bounds(topology, ranks);
  hosts_ = static_cast<Rank>(bounds.size() - 1);
  std::vector<double> rate_below;  // of all NICs of each switch
  for (Rank host = 0; host < hosts_; ++host) {
    const Rank below = topology.hosts_per_switch == 0 ? 0 : host / topology.hosts_per_switch;
    const std::uint32_t rails = rails_of(topology, bounds[host + 1] - bounds[host]);
    LinkModel network = topology.network;
    network.gigabytes_per_second = gigabytes_per_second_of(topology, host);
    const auto first = static_cast<std::uint32_t>(nic_hosts_.size());
    nic_hosts_.resize(nic_hosts_.size() + rails, host);
    nics_.resize(2 * nic_hosts_.size(), carrier(network));
    rate_below.resize(below + 1);
    rate_below[below] += rails * network.gigabytes_per_second;
    for (Rank rank = bounds[host]; rank < bounds[host + 1]; ++rank)
      places_.push_back({.host = host, .lies_below = below, .nic = first + (rank - bounds[host]) % rails});
  }
  ports_.resize(std::size_t{2} * ranks, carrier(topology.inside));
  for (const double rate : rate_below)
    uplinks_.resize(uplinks_.size() + 2,
                    {.picoseconds_per_byte = picoseconds_per_byte(rate) * topology.oversubscription});
  for (const DegradedLink& link : topology.faults.degraded_links)
    degraded_[pair_of(link.from, link.to)] =
        degraded_[pair_of(link.to, link.from)] = {link.bandwidth_factor, link.latency_factor};
}

const Network::Degraded* Network::degraded(Rank from, Rank to) const {
  if (degraded_.empty()) return nullptr;
  const auto entry = degraded_.find(pair_of(from, to));
  return entry == degraded_.end() ? nullptr : &entry->second;
}

Time Network::latency(Rank from, Rank to) const {
  Time latency = way(from, to).latency;
  if (places_[from].lies_below != places_[to].lies_below) latency += switch_latency_;
  if (const Degraded* link = degraded(from, to); link != nullptr)
    latency = for_bytes(static_cast<double>(latency), link->latency_factor);
  return latency;
}

double Network::slowness(Rank from, Rank to) const {
  const Degraded* const link = degraded(from, to);
  return link == nullptr ? 1 : 1 / link->bandwidth_factor;
}

Time Network::Carrier::holds(std::size_t size, double slowness) const noexcept {
  return std::max(gap, for_bytes(static_cast<double>(size) * slowness, picoseconds_per_byte));
}

Time Network::Carrier::carry(std::size_t size, double slowness, Time at) noexcept {
  const Time length = holds(size, slowness);
  free_at = std::max(free_at, at) + length;
  busy += length;
  bytes += size;
  return free_at;
}

Network::Carrier& Network::way_out(Rank from, Rank to) noexcept {
  const bool is_inside = places_[from].host == places_[to].host;
  return is_inside ? ports_[std::size_t{2} * from] : nics_[std::size_t{2} * places_[from].nic];
}

Network::Carrier& Network::way_in(Rank from, Rank to) noexcept {
  const bool is_inside = places_[from].host == places_[to].host;
  return is_inside ? ports_[std::size_t{2} * to + 1] : nics_[std::size_t{2} * places_[to].nic + 1];
}

Time Network::leave(Rank from, Rank to, std::size_t bytes, Time at) {
  Carrier& out = way_out(from, to);
  bytes += way(from, to).header_bytes;
  const Time begin = std::max(at, out.free_at);
  out.carry(bytes, slowness(from, to), begin);
  return begin;
}

Passage Network::pass(Rank from, Rank to, std::size_t bytes, Time begin) {
  const Rank up = places_[from].lies_below;
  const Rank down = places_[to].lies_below;
  const double slow = slowness(from, to);
  bytes += way(from, to).header_bytes;
  Time end = begin + way_out(from, to).holds(bytes, slow);
  if (up != down) {
    end = std::max(end, uplinks_[std::size_t{2} * up].carry(bytes, 1, begin));
    end = std::max(end, uplinks_[std::size_t{2} * down + 1].carry(bytes, 1, begin));
  }
  end = std::max(end, way_in(from, to).carry(bytes, slow, begin));
  const Time late = latency(from, to);
  return {end, begin + late, end + late};
}

std::vector<Use> Network::uses() const {
  std::vector<Use> uses;
  const auto add = [&](const std::vector<Carrier>& carriers, const auto& name) {
    for (std::size_t i = 0; i < carriers.size(); ++i)
      if (carriers[i].bytes != 0)
        uses.push_back({fmt::format("{} {}", name(i / 2), i % 2 == 0 ? "out" : "in"), carriers[i].bytes,
                        carriers[i].busy});
  };
  add(ports_, [](std::size_t i) { return fmt::format("rank {}", i); });
  add(nics_, [this](std::size_t i) {
    const auto first = std::ranges::lower_bound(nic_hosts_, nic_hosts_[i]) - nic_hosts_.begin();
    return fmt::format("host {} NIC {}", nic_hosts_[i], i - static_cast<std::size_t>(first));
  });
  add(uplinks_, [](std::size_t i) { return fmt::format("switch {} uplink", i); });
  return uses;
}

}  // namespace cohort::sim
