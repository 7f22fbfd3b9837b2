// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/network_speed.h>

#include <set>

namespace cohort {
namespace {

/// Of a message that one kernel passes on, beyond what one over loopback takes.
constexpr double kBetweenContainersUs = 2;

}  // namespace

NetworkSpeed NetworkSpeed::between(const Membership& membership) {
  std::set<std::array<std::byte, 16>> hosts;
  NetworkSpeed network{.is_tcp = false, .is_in_one_machine = true};
  for (const auto& peer : membership.peers) {
    hosts.insert(peer.host_id);
    network.is_in_one_machine = network.is_in_one_machine && membership.shares_machine(peer.rank);
    network.is_tcp = network.is_tcp || peer.fabric == 0 || peer.fabric != membership.peers.front().fabric;
  }
  network.ports = static_cast<double>(hosts.size());
  if (network.is_in_one_machine) network.latency_us = kBetweenContainersUs;
  return hosts.size() > 1 ? network : none();
}

}  // namespace cohort
