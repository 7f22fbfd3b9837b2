// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/block_exchange.h>
#include <cohort/collectives/schedules/links/share_exchange.h>
#include <cohort/collectives/schedules/operators/list.h>

/// Operators over two levels: inside of hosts on a mesh, across them by an algorithm of its own, for the
/// ranks that have the same place in hosts of as many ranks each. So every rank carries its part of what goes
/// from host to host, and nothing goes there twice.
///
/// m hosts of q ranks each. A level of one rank is left out. What runs across takes any number of ranks from
/// 2 on, and data in place. It may be one of these again: on the level across, whose hosts are switches
/// (Exec::hosts()). That makes three levels.
namespace cohort::levels {

template <class Op>
using Schedule = Task<> (*)(Exec& x, Op op);

/// Without the division, which is the last step on the last level.
[[nodiscard]] inline Combine undivided(Combine combine) noexcept {
  combine.average_over = 0;
  return combine;
}

/// A reduce_scatter inside, an all_reduce of 1/q across, an all_gather inside. Scratch: bytes, rounded up.
inline Task<> all_reduce(Exec& x, AllReduce op, Schedule<AllReduce> schedule_across) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  inside.use_scratch_from(0);
  across.use_scratch_from(0);
  const Blocks send(op.send, inside.size(), op.element_bytes);
  const Blocks recv(op.recv, inside.size(), op.element_bytes);
  const bool is_apart = inside.size() == 1;
  const bool is_one_host = across.size() == 1;
  const Slice mine = recv[inside.rank()];
  const Combine first = is_one_host ? op.combine : undivided(op.combine);
  const AllReduce rest{is_apart ? op.send : mine, mine, op.combine, op.element_bytes};
  if (!is_apart) co_await exchange_shares(inside, send, mine, first);
  if (!is_one_host) co_await schedule_across(across, rest);
  if (!is_apart) co_await spread_shares(inside, recv);
}

/// Bytes that ranks of a host have of each other's hosts, by place and, for each place, by host: ranks *
/// block_bytes of scratch.
class Packed {
 public:
  /// `at`: of scratch.
  Packed(Exec& x, std::size_t block_bytes, std::size_t at = 0) : x_(x), block_bytes_(block_bytes), at_(at) {}

  /// What is for the ranks in that place, or of them.
  [[nodiscard]] Slice operator()(Rank place) const {
    const std::size_t bytes = x_.hosts().count() * block_bytes_;
    return x_.scratch(at_ + place * bytes, bytes);
  }
  [[nodiscard]] Slice block(Rank of) const {
    return (*this)(x_.hosts().place_of(of)).part(x_.hosts().host_of(of) * block_bytes_, block_bytes_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return x_.size() * block_bytes_; }
  /// What copying so many of the blocks comes to, in one step: for an Exec without memory.
  [[nodiscard]] LocalStep copy_at_once(Rank blocks) const noexcept {
    const Slice all = x_.scratch(at_, blocks * block_bytes_);
    return x_.copy(all, all);
  }

 private:
  Exec& x_;
  const std::size_t block_bytes_;
  const std::size_t at_;
};

/// Inside, everybody gets what is for the ranks in its place of all hosts, combined; the rest goes across.
/// Scratch: scratch_of_reduce_scatter().
inline Task<> reduce_scatter(Exec& x, ReduceScatter op, Schedule<ReduceScatter> schedule_across) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  const Packed packed(x, op.recv.bytes);
  across.use_scratch_from(packed.bytes());
  inside.use_scratch_from(packed.bytes());
  if (inside.size() == 1) {
    co_await schedule_across(across, op);
    co_return;
  }
  if (!x.has_memory()) co_await packed.copy_at_once(x.size());
  const Rank copied = x.has_memory() ? x.size() : 0;
  for (Rank rank = 0; rank < copied; ++rank) co_await x.copy(packed.block(rank), op.block(rank));
  const Slice sums = packed(inside.rank());
  if (across.size() == 1) {
    co_await exchange_shares(inside, packed, op.recv, op.combine);
    co_return;
  }
  co_await exchange_shares(inside, packed, sums, undivided(op.combine));
  const ReduceScatter rest{sums.part(0, op.recv.bytes), op.recv, op.recv.bytes, op.combine, op.element_bytes};
  co_await schedule_across(across, rest);
}

/// The same backwards: across, everybody gets the blocks of all ranks in its place, and passes them on
/// inside. Scratch: scratch_of_all_gather().
inline Task<> all_gather(Exec& x, AllGather op, Schedule<AllGather> schedule_across) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  const Packed packed(x, op.send.bytes);
  across.use_scratch_from(packed.bytes());
  if (inside.size() == 1) {
    co_await schedule_across(across, op);
    co_return;
  }
  const Slice mine = packed(inside.rank());
  const AllGather first{op.send, mine.part(0, op.send.bytes), op.send.bytes, op.element_bytes};
  if (across.size() > 1)
    co_await schedule_across(across, first);
  else
    co_await x.copy(mine, op.send);
  co_await spread_shares(inside, packed);
  co_await x.copy(op.block(x.rank()), op.send);
  if (!x.has_memory()) co_await packed.copy_at_once(x.size() - 1);
  const Rank copied = x.has_memory() ? x.size() : 0;
  for (Rank rank = 0; rank < copied; ++rank)
    if (rank != x.rank()) co_await x.copy(op.block(rank), packed.block(rank));
}

/// What the root of a broadcast does with a rank of its host at the end, and that rank with it: it has all
/// data, and hears instead that this rank, and who shares its place, are there.
inline Task<> send_and_hear(Link& link, Slice data) {
  co_await link.send(data);
  co_await link.wait(Signal::Ack);
}
inline Task<> tell_and_receive(Link& link, Slice data) {
  co_await link.post(Signal::Ack);
  co_await link.recv(data);
}

/// The last step of broadcast(): every rank's block to all ranks of its host but the root.
inline Task<> spread_but_to_root(Exec& x, const Blocks& block, Rank root) {
  Exec& inside = x.inside();
  const Slice mine = block[inside.rank()];
  const bool is_with_root = x.hosts().host_of(x.rank()) == x.hosts().host_of(root);
  const Rank place_of_root = x.hosts().place_of(root);
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = inside.link(peer);
    if (x.rank() == root) return send_and_hear(link, mine);
    if (is_with_root && peer == place_of_root) return tell_and_receive(link, block[peer]);
    return exchange_slices(inside, link, mine, block[peer]);
  };
  co_await inside.fork_join(inside.peers(), swap);
}

/// The root scatters inside of its host, each of that host broadcasts its block across, an all_gather inside.
/// Scratch: bytes, rounded up.
inline Task<> broadcast(Exec& x, Broadcast op, Schedule<Broadcast> schedule_across) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  across.use_scratch_from(0);
  const Blocks block(op.data, inside.size(), op.element_bytes);
  const Rank host_of_root = x.hosts().host_of(op.root);
  const Broadcast rest{block[inside.rank()], host_of_root, op.element_bytes};
  auto give = [&](Rank peer) -> Task<> { return send_slice(inside.link(peer), block[peer]); };
  if (x.rank() == op.root)
    co_await inside.fork_join(inside.peers(), give);
  else if (x.hosts().host_of(x.rank()) == host_of_root)
    co_await inside.link(x.hosts().place_of(op.root)).recv(rest.data);
  if (across.size() > 1) co_await schedule_across(across, rest);
  if (inside.size() > 1) co_await spread_but_to_root(x, block, op.root);
}

/// A reduce_scatter inside, a reduce of 1/q across to the root's host, a gather inside of it. Scratch: bytes,
/// rounded up. Everybody hears from everybody in the first two.
inline Task<> reduce(Exec& x, Reduce op, Schedule<Reduce> schedule_across) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  const Rank host_of_root = x.hosts().host_of(op.root);
  const Rank place_of_root = x.hosts().place_of(op.root);
  if (inside.size() == 1) {
    const Reduce whole{op.send, op.recv, op.combine, host_of_root, op.element_bytes};
    across.use_scratch_from(0);
    co_await schedule_across(across, whole);
    co_return;
  }
  const bool is_root = x.rank() == op.root;
  const bool is_with_root = x.hosts().host_of(x.rank()) == host_of_root;
  const bool is_one_host = across.size() == 1;
  const Blocks send(op.send, inside.size(), op.element_bytes);
  const Blocks recv(op.at_root(), inside.size(), op.element_bytes);
  const std::size_t bytes = send[inside.rank()].bytes;
  const Slice mine = is_root ? recv[inside.rank()] : x.scratch(0, bytes);
  inside.use_scratch_from(bytes);
  across.use_scratch_from(bytes);
  const Combine first = is_one_host ? op.combine : undivided(op.combine);
  co_await exchange_shares(inside, send, mine, first);
  const Reduce rest{mine, is_with_root ? mine : mine.part(0, 0), op.combine, host_of_root, op.element_bytes};
  if (!is_one_host) co_await schedule_across(across, rest);
  auto take = [&](Rank peer) -> Task<> { return receive_slice(inside.link(peer), recv[peer]); };
  if (is_root)
    co_await inside.fork_join(inside.peers(), take);
  else if (is_with_root)
    co_await inside.link(place_of_root).send(mine);
}

/// Everybody gives each rank of its host, at once, what is for the ranks in that one's place of all hosts,
/// and then passes on what it was given, in turn: q blocks in a message across, and 1/q of the messages.
/// Scratch: scratch_of_all_to_all().
inline Task<> all_to_all(Exec& x, AllToAll op) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  const Hosts& hosts = x.hosts();
  if (inside.size() == 1 || across.size() == 1) {
    auto to = [&](Rank rank) { return op.to(rank); };
    auto from = [&](Rank rank) { return op.from(rank); };
    Task<> moving = inside.size() == 1 ? exchange_in_turn(x, to, from) : exchange_at_once(x, to, from);
    co_await moving;
    co_await x.copy(op.from(x.rank()), op.to(x.rank()));
    co_return;
  }
  const std::size_t block = op.size_bytes();
  const Packed given(x, block);
  const Packed taken(x, block, given.bytes());
  for (Rank rank = 0; rank < x.size(); ++rank) {
    const bool is_my_place = hosts.place_of(rank) == inside.rank();
    const Slice place = is_my_place ? taken.block(rank) : given.block(rank);
    co_await x.copy(place, op.to(rank));
  }
  co_await exchange_at_once(inside, given, taken);
  // What is for a host, by who of this one gave it: in the place of what was given, as what comes is in that
  // of what was taken.
  const std::size_t bytes = inside.size() * block;
  auto to = [&](Rank host) { return x.scratch(host * bytes, bytes); };
  auto from = [&](Rank host) { return x.scratch(given.bytes() + host * bytes, bytes); };
  for (Rank place = 0; place < inside.size(); ++place)
    for (Rank host = 0; host < across.size(); ++host) {
      const Slice one = taken(place).part(host * block, block);
      const bool is_here = host == across.rank();
      const Slice goes = to(host).part(place * block, block);
      const Slice there = is_here ? op.from(hosts.ranks_of(host)[place]) : goes;
      co_await x.copy(there, one);
    }
  co_await exchange_in_turn(across, to, from);
  for (Rank host = 0; host < across.size(); ++host) {
    if (host == across.rank()) continue;
    for (Rank place = 0; place < inside.size(); ++place)
      co_await x.copy(op.from(hosts.ranks_of(host)[place]), from(host).part(place * block, block));
  }
}

/// The same with rings between hosts.
[[nodiscard]] inline Needs in_rings(Needs needs) noexcept {
  needs.links_across = false;
  needs.links_to_next_hosts = true;
  return needs;
}
/// Of a vector that is cut into shares.
[[nodiscard]] inline Needs needs_of_vector(std::size_t bytes, const Hosts& hosts) {
  // The shares of a level are rounded up before they are cut again.
  return {.links_inside = true,
          .links_across = true,
          .scratch_bytes = scratch_for_shares(bytes, hosts.ranks() + std::size_t{2})};
}
[[nodiscard]] inline std::size_t largest_vector(std::size_t buffer_bytes, const Hosts&) {
  return buffer_bytes;
}

/// Blocks of scratch: those of all ranks, and what the levels want in turn: inside q-1 shares of a block for
/// each host, across a block for each.
[[nodiscard]] inline std::size_t blocks_of_reduce_scatter(const Hosts& hosts) noexcept {
  return hosts.ranks() + std::max<std::size_t>(1, hosts.most_ranks() - 1) * hosts.count();
}
[[nodiscard]] inline std::size_t blocks_of_all_gather(const Hosts& hosts) noexcept {
  return hosts.ranks() + hosts.count();
}
[[nodiscard]] inline Needs needs_of_reduce_scatter(std::size_t bytes, const Hosts& hosts) {
  return {
      .links_inside = true, .links_across = true, .scratch_bytes = bytes * blocks_of_reduce_scatter(hosts)};
}
[[nodiscard]] inline std::size_t largest_of_reduce_scatter(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / blocks_of_reduce_scatter(hosts);
}
[[nodiscard]] inline Needs needs_of_all_gather(std::size_t bytes, const Hosts& hosts) {
  return {.links_inside = true, .links_across = true, .scratch_bytes = bytes * blocks_of_all_gather(hosts)};
}
[[nodiscard]] inline std::size_t largest_of_all_gather(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / blocks_of_all_gather(hosts);
}

/// The same on three levels: what two want of scratch, and behind the blocks of all ranks what two of
/// switches and hosts want of it.
[[nodiscard]] inline Needs by_switch(Needs needs) noexcept {
  needs.links_across = false;
  needs.links_by_switch = true;
  return needs;
}
[[nodiscard]] inline Needs needs_of_vector_by_switch(std::size_t bytes, const Hosts& hosts) {
  return by_switch(needs_of_vector(bytes, hosts));
}
[[nodiscard]] inline std::size_t blocks_of_reduce_scatter_by_switch(const Hosts& hosts) noexcept {
  return std::max(blocks_of_reduce_scatter(hosts),
                  hosts.ranks() + blocks_of_reduce_scatter(*hosts.switches()));
}
[[nodiscard]] inline std::size_t blocks_of_all_gather_by_switch(const Hosts& hosts) noexcept {
  return hosts.ranks() + blocks_of_all_gather(*hosts.switches());
}
[[nodiscard]] inline Needs needs_of_reduce_scatter_by_switch(std::size_t bytes, const Hosts& hosts) {
  return {.links_inside = true,
          .links_by_switch = true,
          .scratch_bytes = bytes * blocks_of_reduce_scatter_by_switch(hosts)};
}
[[nodiscard]] inline std::size_t largest_of_reduce_scatter_by_switch(std::size_t buffer_bytes,
                                                                     const Hosts& hosts) {
  return buffer_bytes / blocks_of_reduce_scatter_by_switch(hosts);
}
[[nodiscard]] inline Needs needs_of_all_gather_by_switch(std::size_t bytes, const Hosts& hosts) {
  return {.links_inside = true,
          .links_by_switch = true,
          .scratch_bytes = bytes * blocks_of_all_gather_by_switch(hosts)};
}
[[nodiscard]] inline std::size_t largest_of_all_gather_by_switch(std::size_t buffer_bytes,
                                                                 const Hosts& hosts) {
  return buffer_bytes / blocks_of_all_gather_by_switch(hosts);
}

/// Two sets of all ranks' blocks, where there are two levels.
[[nodiscard]] inline std::size_t blocks_of_all_to_all(const Hosts& hosts) noexcept {
  return hosts.count() == 1 || hosts.most_ranks() == 1 ? 0 : std::size_t{2} * hosts.ranks();
}
[[nodiscard]] inline Needs needs_of_all_to_all(std::size_t bytes, const Hosts& hosts) {
  return {.links_inside = true, .links_across = true, .scratch_bytes = bytes * blocks_of_all_to_all(hosts)};
}
[[nodiscard]] inline std::size_t largest_of_all_to_all(std::size_t buffer_bytes, const Hosts& hosts) {
  const std::size_t blocks = blocks_of_all_to_all(hosts);
  return blocks == 0 ? kWholeMessage : buffer_bytes / blocks;
}

using CostAcross = Cost (*)(std::size_t bytes, Rank ranks);
/// Of what runs on two levels there.
using CostBySwitch = Cost (*)(std::size_t bytes, const Hosts& switches);

/// By so many groups of ranks at once.
[[nodiscard]] inline Cost at_once(Cost of_one, Rank groups) noexcept {
  of_one.messages *= groups;
  of_one.bytes_by_all *= groups;
  return of_one;
}
[[nodiscard]] inline Cost cost_of_shares_inside(double share_bytes, const Hosts& hosts) noexcept {
  return at_once(cost_of_shares(share_bytes, hosts.most_ranks()), hosts.count());
}
[[nodiscard]] inline Cost cost_inside(double share_bytes, const Hosts& hosts) noexcept {
  return cost_of_shares_inside(share_bytes, hosts).inside();
}
[[nodiscard]] inline Cost cost_across(CostAcross cost, double bytes, const Hosts& hosts) {
  if (hosts.count() == 1) return {};
  return at_once(cost(static_cast<std::size_t>(bytes), hosts.count()), hosts.most_ranks());
}
[[nodiscard]] inline Cost cost_across(CostBySwitch cost, double bytes, const Hosts& hosts) {
  if (hosts.count() == 1) return {};
  const Cost of_place = cost(static_cast<std::size_t>(bytes), *hosts.switches());
  return at_once(of_place, hosts.most_ranks()).outside();
}
[[nodiscard]] inline Cost reducing(Cost cost) noexcept {
  cost.bytes_reduced = cost.bytes_moved;
  return cost;
}

/// `across`: a CostAcross or CostBySwitch, of an all_reduce in place.
template <class Across>
[[nodiscard]] Cost cost_of_all_reduce(Across across, std::size_t bytes, const Hosts& hosts,
                                      bool is_in_place = false) {
  const double share = static_cast<double>(bytes) / hosts.most_ranks();
  const Cost shares = cost_inside(share, hosts);
  // What the other's is combined with.
  const double copied = hosts.most_ranks() == 2 && !is_in_place ? share : 0;
  return reducing(shares).copying(copied) + cost_across(across, share, hosts) + shares;
}
template <class Across>
[[nodiscard]] Cost cost_of_reduce_scatter(Across across, std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const double packed = hosts.most_ranks() == 1 ? 0 : n * hosts.ranks();
  const double combined = hosts.count() == 1 && hosts.most_ranks() == 2 ? n : 0;
  return reducing(cost_inside(n * hosts.count(), hosts)).copying(packed + combined) +
         cost_across(across, n, hosts);
}
template <class Across>
[[nodiscard]] Cost cost_of_all_gather(Across across, std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const double unpacked = hosts.most_ranks() == 1 ? 0 : n * hosts.ranks();
  const double packed = hosts.count() == 1 ? n : 0;
  return cost_across(across, n, hosts) + cost_inside(n * hosts.count(), hosts).copying(unpacked + packed);
}
/// The root gets a share of each of its host at the end.
[[nodiscard]] inline Cost cost_of_reduce(CostAcross across, std::size_t bytes, const Hosts& hosts) {
  const double share = static_cast<double>(bytes) / hosts.most_ranks();
  const double others = hosts.most_ranks() - 1.0;
  const Cost gather{.rounds = others == 0 ? 0.0 : 1.0,
                    .bytes_moved = share * others,
                    .messages = others,
                    .bytes_by_all = share * others};
  const double copied = hosts.most_ranks() == 2 ? share : 0;  // what the other's is combined with
  return reducing(cost_inside(share, hosts)).copying(copied) + cost_across(across, share, hosts) +
         gather.inside();
}
[[nodiscard]] inline Cost cost_of_all_to_all(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const double others = hosts.count() - 1.0;
  const double moved = n * hosts.most_ranks() * others;
  const Cost in_turn{.rounds = others,
                     .bytes_moved = moved,
                     .messages = hosts.count() * others,
                     .bytes_by_all = moved * hosts.count()};
  const bool is_one_level = hosts.count() == 1 || hosts.most_ranks() == 1;
  const double blocks =
      is_one_level ? 1 : 3.0 * hosts.ranks() - hosts.most_ranks();  // packed, turned, unpacked
  return cost_inside(n * hosts.count(), hosts) + at_once(in_turn, hosts.most_ranks()).copying(n * blocks);
}
/// The root sends a share to each of its host twice, and does what the root does across.
[[nodiscard]] inline Cost cost_of_broadcast(CostAcross across, std::size_t bytes, const Hosts& hosts) {
  const double share = static_cast<double>(bytes) / hosts.most_ranks();
  const double others = hosts.most_ranks() - 1.0;
  const Cost scatter{.rounds = others == 0 ? 0.0 : 1.0,
                     .bytes_moved = share * others,
                     .messages = others,
                     .bytes_by_all = share * others};
  Cost shares = cost_of_shares_inside(share, hosts);
  shares.bytes_by_all -= share * others;  // the root gets signals
  return scatter.inside() + cost_across(across, share, hosts) + shares.inside();
}

}  // namespace cohort::levels
