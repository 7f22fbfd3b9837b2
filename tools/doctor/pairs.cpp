// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/doctor/pairs.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::doctor {
namespace {

/// As slow as this beside the others is no chance.
constexpr double kSlowShare = 0.6;
constexpr double kLateFactor = 5;
constexpr double kLateLeast_us = 200;
constexpr double kMostClock_ms = 100;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double slower_way(const Pair& pair) { return std::min(pair.there_mbit_per_s, pair.back_mbit_per_s); }

std::string names_of(const Pair& pair, std::span<const std::string> hosts) {
  return fmt::format("{} and {}", hosts[pair.first], hosts[pair.second]);
}

void judge_reach(const Pair& pair, std::span<const std::string> hosts, Findings& findings) {
  const std::string check = "between " + names_of(pair, hosts);
  switch (pair.stage) {
    case Stage::connecting:
      findings.problem(
          check, fmt::format("{} cannot connect to {}", hosts[pair.first], hosts[pair.second]),
          "open the ports of COHORT_PORT_RANGE, or of net.ipv4.ip_local_port_range, between them, and look "
          "at their routes");
      break;
    case Stage::small_messages:
      findings.problem(check, "they connect, and messages of a few bytes are lost",
                       "look at firewalls that drop what follows a connection, and at the cable");
      break;
    case Stage::large_messages:
      findings.problem(
          check,
          fmt::format("small messages arrive and large ones do not: the network carries less than the "
                      "MTU of {}, and says so to nobody",
                      pair.mtu),
          "set the MTU of all hosts to what the network carries; or sysctl net.ipv4.tcp_mtu_probing=1");
      break;
    case Stage::none:
    case Stage::done: break;
  }
}

/// Of each host the best that it has with anybody: a slow host is slow with all, a slow way is not.
std::vector<double> best_rates(std::span<const Pair> pairs, std::size_t hosts) {
  std::vector<double> best(hosts, 0);
  for (const Pair& pair : pairs)
    for (const std::uint32_t host : {pair.first, pair.second})
      best[host] = std::max(best[host], slower_way(pair));
  return best;
}

void judge_rates(std::span<const Pair> pairs, std::span<const std::string> hosts, Findings& findings) {
  const std::vector<double> best = best_rates(pairs, hosts.size());
  const double usual = median(best);
  std::vector<bool> is_slow(hosts.size(), false);
  for (std::size_t host = 0; host < hosts.size() && hosts.size() > 2; ++host) {
    is_slow[host] = best[host] > 0 && best[host] < kSlowShare * usual;
    if (is_slow[host])
      findings.problem(
          fmt::format("bandwidth of {}", hosts[host]),
          fmt::format("{:.0f} Mbit/s at best, the others have {:.0f}", best[host], usual),
          "look at its cable, port and interface (ethtool: speed and duplex), and at what else it sends");
  }
  for (const Pair& pair : pairs) {
    const double expected = std::min(best[pair.first], best[pair.second]);
    if (is_slow[pair.first] || is_slow[pair.second] || slower_way(pair) >= kSlowShare * expected) continue;
    findings.problem("between " + names_of(pair, hosts),
                     fmt::format("{:.0f} Mbit/s there, {:.0f} back, and with others {:.0f}",
                                 pair.there_mbit_per_s, pair.back_mbit_per_s, expected),
                     "look at the way between their switches");
  }
}

void judge_times(std::span<const Pair> pairs, std::span<const std::string> hosts, Findings& findings) {
  std::vector<double> latencies;
  for (const Pair& pair : pairs) latencies.push_back(pair.latency_us);
  const double usual = median(latencies);
  for (const Pair& pair : pairs) {
    if (pair.latency_us > kLateLeast_us && pair.latency_us > kLateFactor * usual)
      findings.problem("between " + names_of(pair, hosts),
                       fmt::format("a message takes {:.0f} us, elsewhere {:.0f}", pair.latency_us, usual),
                       "look at the way between them, and at what else runs on both");
    if (std::abs(pair.clock_ms) > kMostClock_ms)
      findings.problem(fmt::format("clock of {}", hosts[pair.second]),
                       fmt::format("is {:+.0f} ms against {}'s: times in logs and traces do not compare",
                                   pair.clock_ms, hosts[pair.first]),
                       "run chrony or systemd-timesyncd on both");
  }
}

}  // namespace

std::vector<std::vector<std::uint32_t>> tournament(std::uint32_t hosts) {
  // The circle method: one stays, the others go round.
  const std::uint32_t places = hosts + hosts % 2;
  std::vector<std::vector<std::uint32_t>> rounds;
  for (std::uint32_t round = 0; round + 1 < places; ++round) {
    std::vector<std::uint32_t> partner(hosts);
    const auto at = [&](std::uint32_t place) {
      return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1);
    };
    for (std::uint32_t place = 0; place < places / 2; ++place) {
      const std::uint32_t one = at(place);
      const std::uint32_t other = at(places - 1 - place);
      if (one < hosts) partner[one] = other < hosts ? other : one;
      if (other < hosts) partner[other] = one < hosts ? one : other;
    }
    rounds.push_back(std::move(partner));
  }
  return rounds;
}

void judge(std::span<const Pair> pairs, std::span<const std::string> hosts, Findings& findings) {
  std::vector<Pair> whole;
  for (const Pair& pair : pairs) {
    judge_reach(pair, hosts, findings);
    if (pair.stage == Stage::done) whole.push_back(pair);
  }
  for (const Pair& pair : whole)
    findings.fine(
        "between " + names_of(pair, hosts),
        fmt::format("{:.0f} us, {:.0f} Mbit/s there, {:.0f} back, clocks {:+.1f} ms, path MTU {}",
                    pair.latency_us, pair.there_mbit_per_s, pair.back_mbit_per_s, pair.clock_ms, pair.mtu));
  judge_rates(whole, hosts, findings);
  judge_times(whole, hosts, findings);
}

}  // namespace cohort::doctor
