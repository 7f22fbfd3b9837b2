// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_graph.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace cohort {
namespace {

/// Whether everybody has few ranks on other hosts: whoever shares a host with the fewest has the most.
bool are_few(const Hosts& hosts) {
  Rank least = hosts.ranks();
  for (Rank host = 0; host < hosts.count(); ++host) least = std::min(least, hosts.size_of(host));
  return hosts.ranks() - least <= ControlGraph::kMostOfOtherHosts;
}

void sort_and_unite(std::vector<Rank>& ranks, Rank except) {
  std::ranges::sort(ranks);
  const auto doubles = std::ranges::unique(ranks);
  ranks.erase(doubles.begin(), doubles.end());
  std::erase(ranks, except);
}

}  // namespace

ControlGraph::ControlGraph(Hosts hosts) : hosts_(std::move(hosts)), is_complete_(are_few(hosts_)) {}

ControlGraph ControlGraph::of(std::span<const PeerInfo> peers) {
  std::map<decltype(PeerInfo::host_id), Rank> numbers;
  std::vector<Rank> host_of;
  for (const PeerInfo& peer : peers)
    host_of.push_back(numbers.emplace(peer.host_id, static_cast<Rank>(numbers.size())).first->second);
  return ControlGraph(Hosts(host_of));
}

std::vector<Rank> ControlGraph::neighbours_of(Rank rank) const {
  std::vector<Rank> ranks;
  if (is_complete_) {
    for (Rank peer = 0; peer < hosts_.ranks(); ++peer) ranks.push_back(peer);
  } else {
    ranks = around(rank, hosts_.ranks());
    const std::span<const Rank> of_host = hosts_.ranks_of(hosts_.host_of(rank));
    ranks.insert(ranks.end(), of_host.begin(), of_host.end());
  }
  sort_and_unite(ranks, rank);
  return ranks;
}

std::vector<Rank> ControlGraph::around(Rank rank, Rank size) {
  std::vector<Rank> ranks;
  for (std::uint64_t apart = 1; apart < size; apart *= 2) {
    ranks.push_back(static_cast<Rank>((rank + apart) % size));
    ranks.push_back(static_cast<Rank>((rank + size - apart) % size));
  }
  sort_and_unite(ranks, rank);
  return ranks;
}

std::optional<Rank> ControlGraph::parent_of(Rank rank) noexcept {
  if (rank == 0) return std::nullopt;
  return rank - std::bit_floor(rank);
}

std::vector<Rank> ControlGraph::children_of(Rank rank, Rank size) {
  std::vector<Rank> children;
  for (std::uint64_t apart = rank == 0 ? 1 : 2 * std::uint64_t{std::bit_floor(rank)}; rank + apart < size;
       apart *= 2)
    children.push_back(static_cast<Rank>(rank + apart));
  return children;
}

}  // namespace cohort
