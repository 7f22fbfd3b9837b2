// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/maybe_empty.h>

#include <optional>
#include <ranges>
#include <vector>

namespace cohort {

/// Whether the ranks of each host have numbers that follow one another.
[[nodiscard]] inline bool are_hosts_in_rank_order(const Hosts& hosts) noexcept {
  for (Rank host = 0; host < hosts.count(); ++host) {
    const std::span<const Rank> ranks = hosts.ranks_of(host);
    if (ranks.back() - ranks.front() + 1 != ranks.size()) return false;
  }
  return true;
}

/// Blocks of the ranks of a host, in the order of places: what goes from host to host for the root of a
/// Gather or Scatter. Where hosts are in rank order and these lie side by side in the root's window, that is
/// one message, else one each. Who passes them on has them packed, one behind the other.
///
/// Where each lies is found once, in a list leased from the Exec: where counts differ, what lies before a
/// block is a sum. Lifetime: within one schedule.
class HostBlocks : Immovable {
 public:
  /// `packed`: where, or the root's window.
  template <class Op>
  HostBlocks(Exec& x, const Op& op, Rank host, std::optional<Slice> packed = {})
      : x_(x), blocks_(x.lease_places()), lie_together_(are_hosts_in_rank_order(x.hosts())) {
    std::size_t end = 0;  // of the block before, in the root's window
    for (const Rank rank : x.hosts().ranks_of(host)) {
      const Slice block = op.block(rank);
      lie_together_ = lie_together_ && (blocks_.empty() || block.offset == end);
      end = block.offset + block.bytes;
      blocks_.push_back({rank, packed ? packed->part(bytes_, block.bytes) : block});
      bytes_ += block.bytes;
    }
  }
  ~HostBlocks() { x_.give_back(std::move(blocks_)); }

  [[nodiscard]] const Slice& operator[](Rank place) const noexcept { return blocks_[place].slice; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// In how many messages they go, of which some may be empty.
  [[nodiscard]] Rank messages() const noexcept {
    return lie_together_ ? 1 : static_cast<Rank>(blocks_.size());
  }

 private:
  Exec& x_;
  std::vector<PlacedSlice> blocks_;
  std::size_t bytes_ = 0;
  bool lie_together_;
};

/// The next message of some blocks.
[[nodiscard]] inline Slice all_or_one(const Slice& first, std::size_t bytes, Rank messages) noexcept {
  return messages == 1 ? Slice{first.window, first.offset, bytes} : first;
}

/// Of a host whose blocks are all empty a signal is sent. `blocks` outlives the task.
inline Task<> send_blocks(Link& link, const HostBlocks& blocks) {
  const std::size_t bytes = blocks.bytes();
  const Rank messages = blocks.messages();
  if (bytes == 0) co_await link.post(Signal::DataSignal);
  for (Rank i = 0; i < messages; ++i) {
    const Slice message = all_or_one(blocks[i], bytes, messages);
    if (!message.empty()) co_await link.send(message);
  }
}
inline Task<> receive_blocks(Link& link, const HostBlocks& blocks) {
  const std::size_t bytes = blocks.bytes();
  const Rank messages = blocks.messages();
  if (bytes == 0) co_await link.wait(Signal::DataSignal);
  for (Rank i = 0; i < messages; ++i) {
    const Slice message = all_or_one(blocks[i], bytes, messages);
    if (!message.empty()) co_await link.recv(message);
  }
}

/// How far ahead, around the ring of hosts, the others are, and the link to who speaks for that one.
[[nodiscard]] inline auto other_hosts(const Exec& x) noexcept {
  return std::views::iota(Rank{1}, x.hosts().count());
}
[[nodiscard]] inline Rank host_ahead(const Exec& x, Rank distance) noexcept {
  return (x.hosts().host_of(x.rank()) + distance) % x.hosts().count();
}
[[nodiscard]] inline Link& link_to_middle(Exec& x, Rank host) {
  return x.link(x.hosts().middle(host, x.rank()));
}

/// Two stars, one inside of each host around who speaks for it to the root (Hosts::middle()), and one of
/// these around the root: links, and scratch for the blocks of a host.
[[nodiscard]] inline Rank packed_host_blocks(const Hosts& hosts) noexcept {
  return hosts.most_ranks() == 1 ? 0 : hosts.most_ranks();
}
[[nodiscard]] inline Needs needs_of_two_stars(std::size_t bytes, const Hosts& hosts) noexcept {
  return {.links_inside = true, .links_to_middles = true, .scratch_bytes = bytes * packed_host_blocks(hosts)};
}
[[nodiscard]] inline std::size_t largest_piece_of_two_stars(std::size_t buffer_bytes,
                                                            const Hosts& hosts) noexcept {
  const Rank packed = packed_host_blocks(hosts);
  return packed == 0 ? kWholeMessage : buffer_bytes / packed;
}

/// Signals one way and blocks of so many bytes the other way, of a call that is not cut into pieces, from or
/// to a rank of a largest host.
[[nodiscard]] inline Cost cost_of_two_stars(std::size_t bytes, const Hosts& hosts, bool root_gives) noexcept {
  const double n = static_cast<double>(bytes);
  const double most = hosts.most_ranks();
  const double pairs_inside = hosts.ranks() - static_cast<double>(hosts.count());
  const double other_hosts = hosts.count() - 1.0;
  // Beside the root's host: others of one rank have nobody to wait for.
  const bool has_two_stars = most > 1 && (hosts.count() == 1 || hosts.ranks_at(1).size() > 1);
  const Cost inside{.rounds = has_two_stars ? 2.0 : 0.0,
                    .bytes_moved = (most - 1) * n,
                    .messages = 2 * pairs_inside,
                    .bytes_by_all = pairs_inside * n};
  const double across = (hosts.ranks() - most) * n;
  const double messages = are_hosts_in_rank_order(hosts) ? other_hosts : hosts.ranks() - most;
  const Cost between{.rounds = other_hosts == 0 ? 0.0 : 2.0,
                     .bytes_moved = across,
                     .messages = other_hosts + messages,
                     .bytes_by_all = across,
                     .messages_of_one = root_gives ? messages : 0,
                     .bytes_of_one = root_gives ? across : 0};
  return inside.inside().copying(n) + between;
}

}  // namespace cohort
