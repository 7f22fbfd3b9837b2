// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/sim/network.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::sim {
namespace {

constexpr double kPicosecondsPerNanosecond = 1e3;
constexpr int kRankBits = 32;

double per_byte(double gigabytes_per_second) { return kPicosecondsPerNanosecond / gigabytes_per_second; }

std::uint64_t pair_of(Rank from, Rank to) { return std::uint64_t{from} << kRankBits | to; }

void require(bool is_right, const std::string& text) {
  if (!is_right) throw Error(ErrorKind::InvalidArgument, "topology: " + text);
}

void check_speed(const char* name, const LinkSpeed& speed) {
  require(speed.gigabytes_per_second > 0 && speed.latency_ns >= 0,
          fmt::format("{} needs a bandwidth above 0 and a latency of at least 0", name));
}

void check_rank(const char* name, Rank rank, Rank ranks) {
  require(rank < ranks, fmt::format("{} names rank {} of {} ranks", name, rank, ranks));
}

Rank check(const Topology& t, Rank ranks) {
  require(ranks >= 2, fmt::format("{} ranks: at least 2 are needed", ranks));
  require(t.ranks_per_host > 0, "ranks_per_host starts at 1");
  require(t.oversubscription > 0, "oversubscription is above 0");
  require(t.copy_gigabytes_per_second >= 0 && t.reduce_gigabytes_per_second >= 0 && t.switch_latency_ns >= 0,
          "speeds and latencies are at least 0");
  check_speed("inside", t.inside);
  check_speed("network", t.network);
  for (const SlowRank& slow : t.slow_ranks) {
    check_rank("slow_ranks", slow.rank, ranks);
    require(slow.factor > 0, "slow_ranks: factor is above 0");
  }
  for (const DegradedLink& link : t.degraded_links) {
    check_rank("degraded_links", std::max(link.from, link.to), ranks);
    require(link.bandwidth_factor > 0 && link.latency_factor > 0, "degraded_links: factors are above 0");
  }
  for (const LostLink& link : t.lost_links) {
    check_rank("lost_links", std::max(link.from, link.to), ranks);
    require(link.step > 0, "lost_links: step starts at 1");
  }
  for (const DeadRank& dead : t.dead_ranks) {
    check_rank("dead_ranks", dead.rank, ranks);
    require(dead.step > 0, "dead_ranks: step starts at 1");
  }
  return ranks;
}

}  // namespace

Network::Network(const Topology& topology, Rank ranks)
    : topology_(topology),
      hosts_((check(topology, ranks) - 1) / topology.ranks_per_host + 1),
      rails_(topology.rails == 0 ? topology.ranks_per_host : topology.rails),
      hosts_per_switch_(topology.hosts_per_switch == 0 ? hosts_ : topology.hosts_per_switch) {
  const double nic = per_byte(topology.network.gigabytes_per_second);
  const double uplink = nic / rails_ / hosts_per_switch_ * topology.oversubscription;
  ports_.resize(std::size_t{2} * ranks,
                {.picoseconds_per_byte = per_byte(topology.inside.gigabytes_per_second)});
  nics_.resize(std::size_t{2} * hosts_ * rails_, {.picoseconds_per_byte = nic});
  uplinks_.resize(std::size_t{2} * ((hosts_ - 1) / hosts_per_switch_ + 1), {.picoseconds_per_byte = uplink});
  for (const DegradedLink& link : topology.degraded_links)
    degraded_[pair_of(link.from, link.to)] =
        degraded_[pair_of(link.to, link.from)] = {link.bandwidth_factor, link.latency_factor};
}

std::size_t Network::nic_of(Rank rank) const noexcept {
  return std::size_t{host_of(rank)} * rails_ + rank % topology_.ranks_per_host % rails_;
}

const Network::Degraded* Network::degraded(Rank from, Rank to) const {
  if (degraded_.empty()) return nullptr;
  const auto entry = degraded_.find(pair_of(from, to));
  return entry == degraded_.end() ? nullptr : &entry->second;
}

Time Network::latency(Rank from, Rank to) const {
  const Rank there = host_of(from);
  const Rank here = host_of(to);
  double nanoseconds = there == here ? topology_.inside.latency_ns : topology_.network.latency_ns;
  if (there / hosts_per_switch_ != here / hosts_per_switch_) nanoseconds += topology_.switch_latency_ns;
  if (const Degraded* link = degraded(from, to)) nanoseconds *= link->latency_factor;
  return std::llround(nanoseconds * kPicosecondsPerNanosecond);
}

Time Network::Carrier::carry(std::size_t size, double slowness, Time at) {
  const Time holds = std::llround(static_cast<double>(size) * picoseconds_per_byte * slowness);
  free_at = std::max(free_at, at) + holds;
  busy += holds;
  bytes += size;
  return free_at;
}

Passage Network::pass(Rank from, Rank to, std::size_t bytes, Time at) {
  const Rank there = host_of(from);
  const Rank here = host_of(to);
  const bool is_inside = there == here;
  Carrier& out = is_inside ? ports_[std::size_t{2} * from] : nics_[2 * nic_of(from)];
  Carrier& in = is_inside ? ports_[std::size_t{2} * to + 1] : nics_[2 * nic_of(to) + 1];
  const Degraded* const link = degraded(from, to);
  const double slowness = link == nullptr ? 1 : 1 / link->bandwidth_factor;
  const Time begin = std::max(at, out.free_at);
  Time end = out.carry(bytes, slowness, begin);
  const Rank up = there / hosts_per_switch_;
  const Rank down = here / hosts_per_switch_;
  if (up != down) {
    end = std::max(end, uplinks_[std::size_t{2} * up].carry(bytes, 1, begin));
    end = std::max(end, uplinks_[std::size_t{2} * down + 1].carry(bytes, 1, begin));
  }
  end = std::max(end, in.carry(bytes, slowness, begin));
  return {end, end + latency(from, to)};
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
  add(nics_, [this](std::size_t i) { return fmt::format("host {} NIC {}", i / rails_, i % rails_); });
  add(uplinks_, [](std::size_t i) { return fmt::format("switch {} uplink", i); });
  return uses;
}

}  // namespace cohort::sim
