// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort::carrying {
namespace {

/// For Carrying: what the caller has of a host's vector, where that is a part of one for all.
auto of_vector(const HostVectors& vectors, const Slice& whole) {
  return [vectors, whole](Rank host, std::size_t at) {
    const HostVectors::Range part = vectors.of_host(host);
    return whole.part(part.begin + at, part.bytes() - at);
  };
}
/// The same where it has a block for each rank.
template <class Op>
auto of_blocks(const Hosts& hosts, const Op& op) {
  return [&hosts, op](Rank host, std::size_t at) {
    const std::size_t bytes = op.size_bytes();
    const Slice block = op.block(hosts.ranks_of(host)[at / bytes]);
    return block.part(at % bytes, bytes - at % bytes);
  };
}

/// The same where blocks differ.
template <class Op>
auto of_list(const Hosts& hosts, const Op& op) {
  return [&hosts, op](Rank host, std::size_t at) {
    std::size_t begin = 0;
    const auto has_it = [&](Rank rank) {
      begin += op.blocks.bytes_of(rank);
      return at < begin;
    };
    const Rank rank = *std::ranges::find_if(hosts.ranks_of(host), has_it);
    const Slice block = op.block(rank);
    return block.part(block.bytes - (begin - at), begin - at);
  };
}

template <class Op, class User>
Task<> scatter_combined(Exec& x, Op op, HostVectors vectors, User from) {
  Carrying carrying(x, vectors);
  co_await carrying.pack(from);
  co_await carrying.combine(op.recv, op.combine);
}

template <class Op, class User>
Task<> gather_to_all(Exec& x, Op op, HostVectors vectors, User to) {
  Carrying carrying(x, vectors);
  co_await x.copy(carrying.own(), op.send);
  co_await carrying.spread();
  co_await carrying.unpack(to);
}

/// Scratch in vectors: what a host's ranks carry, and what one rank receives to combine, a slice for each
/// host. Slices of equal shares are at most a vector together; of a host with a larger share they are more.
std::size_t vectors_in_scratch(const Hosts& hosts) {
  if (hosts.are_bandwidths_equal()) return 2;
  constexpr std::size_t kParts = 1 << 10;  // of a vector: finer than it matters, and no product overflows
  std::size_t most = 1;
  for (Rank host = 0; host < hosts.count(); ++host) {
    const std::size_t share =
        hosts.elements_before(host + 1, kParts) - hosts.elements_before(host, kParts) + 1;
    const std::size_t slices = share * hosts.count();
    most = std::max(most, (slices + kParts * hosts.size_of(host) - 1) / (kParts * hosts.size_of(host)));
  }
  return 1 + most;
}

std::size_t scratch_for_combined(std::size_t vectors, std::size_t bytes, const Hosts& hosts) {
  // What is received lies apart for each host and each rank of this one, rounded up each time.
  const std::size_t parts = std::size_t{hosts.count()} * (hosts.most_ranks() + std::size_t{1});
  return scratch_for_shares(vectors * bytes, parts);
}

Needs needs(std::size_t scratch_bytes) {
  return {.links_inside = true, .links_to_carriers = true, .scratch_bytes = scratch_bytes};
}

}  // namespace

Task<> all_reduce(Exec& x, AllReduce op) {
  const HostVectors vectors = HostVectors::of_vector(x.hosts(), op.send.bytes, op.element_bytes);
  const auto from = of_vector(vectors, op.send);
  const auto to = of_vector(vectors, op.recv);
  Carrying carrying(x, vectors);
  co_await carrying.pack(from);
  co_await carrying.combine(carrying.own(), op.combine);
  co_await carrying.spread();
  co_await carrying.unpack(to);
}

Task<> reduce_scatter(Exec& x, ReduceScatter op) {
  const HostVectors vectors = HostVectors::of_blocks(x.hosts(), op.recv.bytes, op.element_bytes);
  return scatter_combined(x, op, vectors, of_blocks(x.hosts(), op));
}

Task<> reduce_scatter_v(Exec& x, ReduceScatterV op) {
  const HostVectors vectors = HostVectors::of_blocks(x.hosts(), op.blocks, op.element_bytes);
  return scatter_combined(x, op, vectors, of_list(x.hosts(), op));
}

Task<> all_gather(Exec& x, AllGather op) {
  const HostVectors vectors = HostVectors::of_blocks(x.hosts(), op.send.bytes, op.element_bytes);
  return gather_to_all(x, op, vectors, of_blocks(x.hosts(), op));
}

Task<> all_gather_v(Exec& x, AllGatherV op) {
  const HostVectors vectors = HostVectors::of_blocks(x.hosts(), op.blocks, op.element_bytes);
  return gather_to_all(x, op, vectors, of_list(x.hosts(), op));
}

Task<> broadcast(Exec& x, Broadcast op) {
  const HostVectors vectors = HostVectors::of_vector(x.hosts(), op.data.bytes, op.element_bytes);
  const auto data = of_vector(vectors, op.data);
  Exec& inside = x.inside();
  Carrying carrying(x, vectors);
  const Rank host_of_root = x.hosts().host_of(op.root);
  auto give = [&](Rank peer) -> Task<> { return send_slice(inside.link(peer), carrying(peer)); };
  if (x.rank() == op.root) {
    co_await carrying.pack(data);
    co_await inside.fork_join(inside.peers(), give);
  } else if (x.hosts().host_of(x.rank()) == host_of_root) {
    co_await inside.link(x.hosts().place_of(op.root)).recv(carrying(inside.rank()));
  }
  co_await carrying.scatter_from(host_of_root);
  co_await carrying.spread();
  if (x.rank() != op.root) co_await carrying.unpack(data);
}

Task<> reduce(Exec& x, Reduce op) {
  const HostVectors vectors = HostVectors::of_vector(x.hosts(), op.send.bytes, op.element_bytes);
  const auto from = of_vector(vectors, op.send);
  const auto to = of_vector(vectors, op.recv);
  Exec& inside = x.inside();
  Carrying carrying(x, vectors);
  const Rank host_of_root = x.hosts().host_of(op.root);
  co_await carrying.pack(from);
  co_await carrying.combine(carrying.own(), op.combine);
  co_await carrying.gather_to(host_of_root);
  auto take = [&](Rank peer) -> Task<> { return receive_slice(inside.link(peer), carrying(peer)); };
  if (x.rank() == op.root) {
    co_await inside.fork_join(inside.peers(), take);
    co_await carrying.unpack(to);
  } else if (x.hosts().host_of(x.rank()) == host_of_root) {
    co_await inside.link(x.hosts().place_of(op.root)).send(carrying(inside.rank()));
  }
}

Needs needs_of_vector(std::size_t bytes, const Hosts& hosts) {
  return needs(scratch_for_combined(vectors_in_scratch(hosts), bytes, hosts));
}
std::size_t largest_vector(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / vectors_in_scratch(hosts);
}

Needs needs_of_reduce_scatter(std::size_t bytes, const Hosts& hosts) {
  return needs(scratch_for_combined(2, bytes * hosts.ranks(), hosts));
}
std::size_t largest_of_reduce_scatter(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / 2 / hosts.ranks();
}

Needs needs_of_all_gather(std::size_t bytes, const Hosts& hosts) { return needs(bytes * hosts.ranks()); }
std::size_t largest_of_all_gather(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / hosts.ranks();
}

}  // namespace cohort::carrying
