// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedule/by_carrying.h>

#include <numeric>

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

/// How many hosts have so many ranks, from 1 to most_ranks().
double hosts_of_size(const Hosts& hosts, Rank size) {
  const std::size_t larger = size < hosts.most_ranks() ? hosts.ranks_at(size).size() : 0;
  return static_cast<double>(hosts.ranks_at(size - 1).size() - larger);
}

/// What costs depend on. Made for every call that is chosen for: without an allocation.
struct Sizes {
  explicit Sizes(const Hosts& of) : ranks(of.ranks()), hosts(of.count()), most(of.most_ranks()) {
    for (Rank size = of.most_ranks(); size > 0; --size) {
      const double count = hosts_of_size(of, size);
      if (count == 0) continue;
      least = size;
      messages_inside += count * size * (size - 1.0);
      for (Rank other = 1; other <= of.most_ranks(); ++other) {
        const double pairs = count * (size == other ? count - 1 : hosts_of_size(of, other));
        messages_across += pairs * (size + other - std::gcd(size, other));
      }
      const double apart = size == of.most_ranks() ? count - 1 : count;
      messages_of_most += apart * (size + most - std::gcd(size, of.most_ranks()));
    }
  }

  double ranks;
  double hosts;
  double most;  ///< of a host
  double least = 0;
  double messages_inside = 0;   ///< from each rank to all others of its host
  double messages_across = 0;   ///< from each rank to all its partners
  double messages_of_most = 0;  ///< from those of a largest host only
};

/// Of which so many bytes leave a host, on the path or of the rank that counts there.
Cost leaving(Cost cost, double bytes_across) {
  cost.bytes_moved_inside = cost.bytes_moved - bytes_across;
  return cost;
}

/// Combined inside and across, for vectors of so many bytes in all; without what moves.
Cost phase(double all_bytes, const Sizes& of) {
  const double has_inside = of.most > 1 ? 1 : 0;
  const double has_across = of.hosts > 1 ? 1 : 0;
  return {.rounds = has_inside + has_across,
          .messages = of.messages_inside + of.messages_across,
          .bytes_by_all = all_bytes * (of.ranks - 1),
          .rounds_inside = has_inside,
          .messages_inside = of.messages_inside,
          .bytes_by_all_inside = all_bytes * (of.ranks - of.hosts)};
}

/// Of blocks: most comes to a rank of a largest host.
Cost phase_of_blocks(std::size_t bytes, const Sizes& of) {
  const double n = static_cast<double>(bytes);
  Cost cost = phase(n * of.ranks, of);
  cost.bytes_moved = n * (of.ranks * (1 - 1 / of.most) + of.hosts - 1);
  return leaving(cost, n * (of.ranks - of.least) / of.least);
}

/// Of a vector: a rank sends and gets as much.
Cost phase_of_vector(double bytes, const Sizes& of) {
  Cost cost = phase(bytes, of);
  cost.bytes_moved = bytes * (1 - 1 / (of.hosts * of.most));
  return leaving(cost, bytes * (of.hosts - 1) / (of.hosts * of.least));
}

Cost reducing(Cost cost) {
  cost.bytes_reduced = cost.bytes_moved;
  return cost;
}

/// What is between a root and the slices of all ranks, either way.
Cost rooted(double bytes, const Sizes& of) {
  const double has_inside = of.most > 1 ? 1 : 0;
  const double has_across = of.hosts > 1 ? 1 : 0;
  const double inside = bytes * (1 - 1 / of.most);
  Cost cost{.rounds = has_inside + has_across,
            .bytes_moved = bytes * (1 - 1 / (of.hosts * of.most)),
            .messages = of.most - 1 + of.messages_of_most,
            .bytes_by_all = inside + bytes * (1 - 1 / of.hosts),
            .rounds_inside = has_inside,
            .messages_inside = of.most - 1,
            .bytes_by_all_inside = inside};
  return leaving(cost, bytes * (of.hosts - 1) / (of.hosts * of.most));
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
  const auto from = of_blocks(x.hosts(), op);
  Carrying carrying(x, vectors);
  co_await carrying.pack(from);
  co_await carrying.combine(op.recv, op.combine);
}

Task<> all_gather(Exec& x, AllGather op) {
  const HostVectors vectors = HostVectors::of_blocks(x.hosts(), op.send.bytes, op.element_bytes);
  const auto to = of_blocks(x.hosts(), op);
  Carrying carrying(x, vectors);
  co_await x.copy(carrying.own(), op.send);
  co_await carrying.spread();
  co_await carrying.unpack(to);
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

Cost cost_of_all_reduce(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const Cost one = phase_of_vector(n, Sizes(hosts));
  return reducing(one).copying(2 * n) + one;
}

Cost cost_of_reduce_scatter(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const bool is_one_pair = hosts.count() == 1 && hosts.ranks() == 2;  // which combines in place
  return reducing(phase_of_blocks(bytes, Sizes(hosts))).copying(n * hosts.ranks() + (is_one_pair ? n : 0));
}

Cost cost_of_all_gather(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  return phase_of_blocks(bytes, Sizes(hosts)).copying(n * (hosts.ranks() + 1.0));
}

Cost cost_of_broadcast(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const Sizes sizes(hosts);
  return rooted(n, sizes) + phase_of_vector(n, sizes).copying(n);
}

Cost cost_of_reduce(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const Sizes sizes(hosts);
  return reducing(phase_of_vector(n, sizes)).copying(2 * n) + rooted(n, sizes);
}

}  // namespace cohort::carrying
