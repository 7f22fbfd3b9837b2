// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/host_groups.h>

#include <cohort/graph/executor/reductions.h>
#include <cohort/net/membership.h>

#include <utility>
#include <vector>

namespace cohort::graph {
namespace {

/// Of a first of two reductions that together average.
ReduceOp inner(ReduceOp op) { return op == ReduceOp::avg ? ReduceOp::sum : op; }

Combination outer(HostReduction how) {
  if (divides_first(how.type, how.reduction)) return ReduceOp::sum;
  return how.reduction == ReduceOp::avg ? scaled_sum(1.0 / how.ranks) : Combination(how.reduction);
}

Task<> divide_if_first(Communicator& host, HostReduction how, std::span<std::byte> data) {
  if (divides_first(how.type, how.reduction)) co_await divide_by(how.ranks, host.engine(), how.type, data);
}

/// Elements of each rank's share, as equal as can be.
std::vector<std::size_t> shares_of(std::size_t elements, Rank ranks) {
  std::vector<std::size_t> counts(ranks);
  for (Rank rank = 0; rank < ranks; ++rank)
    counts[rank] = elements * (rank + 1) / ranks - elements * rank / ranks;
  return counts;
}

std::span<std::byte> share_of(std::span<std::byte> data, DataType type, Rank rank, Rank ranks) {
  const std::size_t element_bytes = size_bytes(type);
  const std::size_t elements = data.size() / element_bytes;
  const std::size_t begin = elements * rank / ranks;
  const std::size_t end = elements * (rank + 1) / ranks;
  return data.subspan(begin * element_bytes, (end - begin) * element_bytes);
}

}  // namespace

HostPlace host_place(const Communicator& communicator) {
  const auto& peers = communicator.membership().peers;
  std::vector<std::size_t> first_of(peers.size());  // by rank: the first rank of its host
  std::vector<int> place(peers.size(), 0);          // of a rank on its host
  std::vector<int> size(peers.size(), 0);           // of a host, at its first rank
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    std::size_t first = 0;
    while (peers[first].host_id != peers[rank].host_id) ++first;
    first_of[rank] = first;
    place[rank] = size[first]++;
  }
  bool are_alike = true;
  for (const std::size_t first : first_of) are_alike = are_alike && size[first] == size[0];
  const Rank self = communicator.rank();
  return {.host = static_cast<int>(first_of[self]),
          .place = are_alike ? place[self] : -1,
          .leader = place[self] == 0 ? 0 : -1};
}

Task<> HostGroups::open(Communicator& communicator) {
  const HostPlace own = host_place(communicator);
  std::optional<Communicator> of_host = co_await communicator.split(own.host);
  std::optional<Communicator> of_place = co_await communicator.split(own.place);
  std::optional<Communicator> of_leaders = co_await communicator.split(own.leader);
  host.emplace(std::move(*of_host));
  if (of_place) across_hosts.emplace(std::move(*of_place));
  if (of_leaders) leaders.emplace(std::move(*of_leaders));
}

Task<> reduce_to_shares(Communicator& host, HostReduction how, std::span<std::byte> data) {
  const std::vector<std::size_t> counts = shares_of(data.size() / size_bytes(how.type), host.size());
  const std::span<std::byte> mine = share_of(data, how.type, host.rank(), host.size());
  const Combination op = inner(how.reduction);
  co_await divide_if_first(host, how, data);
  co_await host.reduce_scatter_v(how.type, data, mine, counts, op);
}

Task<> reduce_share(Communicator& host, Communicator& across, HostReduction how, std::span<std::byte> data) {
  const std::span<std::byte> mine = share_of(data, how.type, host.rank(), host.size());
  const Combination op = outer(how);
  co_await across.all_reduce(how.type, mine, mine, op);
}

Task<> gather_shares(Communicator& host, HostReduction how, std::span<std::byte> data) {
  const std::vector<std::size_t> counts = shares_of(data.size() / size_bytes(how.type), host.size());
  const std::span<std::byte> mine = share_of(data, how.type, host.rank(), host.size());
  co_await host.all_gather_v(how.type, mine, data, counts);
}

Task<> reduce_to_leader(Communicator& host, HostReduction how, std::span<std::byte> data) {
  const Combination op = inner(how.reduction);
  co_await divide_if_first(host, how, data);
  co_await host.reduce(how.type, data, data, op, 0);
}

Task<> reduce_among_leaders(Communicator& leaders, HostReduction how, std::span<std::byte> data) {
  const Combination op = outer(how);
  co_await leaders.all_reduce(how.type, data, data, op);
}

}  // namespace cohort::graph
