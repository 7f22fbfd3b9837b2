// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/gathering.h>

#include <cohort/net/membership.h>

#include <algorithm>

namespace cohort {

Task<std::vector<std::string>> gather_texts(Communicator& comm, std::string own) {
  const std::vector<std::uint64_t> mine{own.size()};
  std::vector<std::uint64_t> sizes(comm.size());
  co_await comm.all_gather(mine, sizes);
  const std::size_t most = std::max<std::uint64_t>(1, *std::ranges::max_element(sizes));
  own.resize(most);
  const std::vector<char> bytes(own.begin(), own.end());
  std::vector<char> all(most * comm.size());
  co_await comm.all_gather_bytes(bytes, all);
  std::vector<std::string> texts;
  for (Rank rank = 0; rank < comm.size(); ++rank) texts.emplace_back(all.data() + rank * most, sizes[rank]);
  co_return texts;
}

std::vector<Rank> first_ranks_of_hosts(const Membership& membership) {
  std::vector<Rank> first;
  for (const PeerInfo& peer : membership.peers) {
    const auto is_there = [&](Rank rank) { return membership.peers[rank].host_id == peer.host_id; };
    if (std::ranges::none_of(first, is_there)) first.push_back(peer.rank);
  }
  return first;
}

}  // namespace cohort
