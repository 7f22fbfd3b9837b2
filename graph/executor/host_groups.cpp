// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/host_groups.h>

#include <cohort/net/membership.h>

#include <utility>
#include <vector>

namespace cohort::graph {

Task<> HostGroups::open(Communicator& communicator) {
  const auto& peers = communicator.membership().peers;
  std::vector<int> first_of(peers.size());  // by rank: the first rank of its host
  std::vector<int> place(peers.size(), 0);  // of a rank on its host
  std::vector<int> size(peers.size(), 0);   // of a host, at its first rank
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    std::size_t first = 0;
    while (peers[first].host_id != peers[rank].host_id) ++first;
    first_of[rank] = static_cast<int>(first);
    place[rank] = size[first]++;
  }
  bool are_alike = true;
  for (std::size_t rank = 0; rank < peers.size(); ++rank)
    are_alike = are_alike && size[static_cast<std::size_t>(first_of[rank])] == size[0];
  const Rank self = communicator.rank();
  const int place_if_alike = are_alike ? place[self] : -1;
  const int place_of_leader = place[self] == 0 ? 0 : -1;
  std::optional<Communicator> of_host = co_await communicator.split(first_of[self]);
  std::optional<Communicator> of_place = co_await communicator.split(place_if_alike);
  std::optional<Communicator> of_leaders = co_await communicator.split(place_of_leader);
  host.emplace(std::move(*of_host));
  if (of_place) across_hosts.emplace(std::move(*of_place));
  if (of_leaders) leaders.emplace(std::move(*of_leaders));
}

}  // namespace cohort::graph
