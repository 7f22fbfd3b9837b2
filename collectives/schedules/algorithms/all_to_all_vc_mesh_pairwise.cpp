// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/block_exchange.h>
#include <cohort/collectives/schedules/links/by_levels.h>
#include <cohort/collectives/schedules/links/packed_blocks.h>

namespace cohort {
namespace all_to_all_vc_mesh_pairwise {
namespace {

using Order = PackedBlocks::Order;

Task<> exchange_across(Exec& across, const PackedBlocks& to, const PackedBlocks& from) {
  for (Rank distance = 1; distance < across.size(); ++distance) {
    const Rank ahead = across.ahead(distance);
    const Rank behind = across.behind(distance);
    co_await across.streams().fork_join(send_or_post(across.link(ahead), to(ahead)),
                                        receive_or_wait(across.link(behind), from(behind)));
  }
}

/// Two-level all_to_all of blocks that differ, as all_to_all_mesh_pairwise.
///
/// Cost, m hosts of q ranks: m rounds; (q-1)m blocks sent inside and (m-1)q across per rank, each step as
/// long as its largest message. Streams: main and q-1 or two sub streams. Scratch: 2 p of the largest block.
/// Source: Traeff and Rougier, MPI collectives and datatypes for hierarchical all-to-all communication,
/// EuroMPI 2014.
Task<> all_to_all_vc_mesh_pairwise(Exec& x, AllToAllVc op) {
  const Hosts& hosts = x.hosts();
  const Rank own_host = hosts.host_of(x.rank());
  const Rank own_place = hosts.place_of(x.rank());
  const std::size_t second_half = x.size() * op.size_bytes();
  auto rank_at = [&](Rank place, Rank host) { return hosts.ranks_of(host)[place]; };
  auto mine = [&](Rank rank) { return op.to(rank); };
  auto passing = [&](Rank place, Rank host) {
    return op.bytes_between(rank_at(place, own_host), rank_at(own_place, host));
  };
  auto coming = [&](Rank place, Rank host) { return op.from(rank_at(place, host)).bytes; };
  const PackedBlocks given(x, mine);
  const PackedBlocks taken(x, Order::by_place, second_half, passing);
  for (Rank rank = 0; rank < x.size(); ++rank) {
    const bool is_own_place = hosts.place_of(rank) == own_place;
    const Slice& packed = is_own_place ? taken.block(rank) : given.block(rank);
    co_await x.copy(packed, op.to(rank));
  }
  co_await exchange_or_signal_at_once(x.inside(), given, taken);
  // In the places of what was given and taken.
  const PackedBlocks going(x, Order::by_host, 0, passing);
  for (Rank place = 0; place < hosts.most_ranks(); ++place)
    for (Rank host = 0; host < hosts.count(); ++host) {
      const Slice here = op.from(rank_at(place, own_host));
      const Slice& there = host == own_host ? here : going.at(place, host);
      co_await x.copy(there, taken.at(place, host));
    }
  const PackedBlocks arrived(x, Order::by_host, second_half, coming);
  co_await exchange_across(x.across(), going, arrived);
  for (Rank rank = 0; rank < x.size(); ++rank)
    if (hosts.host_of(rank) != own_host) co_await x.copy(op.from(rank), arrived.block(rank));
}

Cost cost_of_pairs(std::size_t bytes, Rank hosts) {
  const double others = hosts - 1.0;
  const double n = static_cast<double>(bytes);
  return {.rounds = others,
          .bytes_moved = n * others,
          .messages = hosts * others,
          .bytes_by_all = n * others * hosts};
}

Cost cost(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const double packed_turned_unpacked = 3.0 * hosts.ranks() - hosts.most_ranks();
  return levels::cost_inside(n * hosts.count(), hosts).copying(n * packed_turned_unpacked) +
         levels::cost_across(cost_of_pairs, n * hosts.most_ranks(), hosts);
}

Needs needs(std::size_t bytes, const Hosts& hosts) {
  return {.links_inside = true, .links_across = true, .scratch_bytes = bytes * 2 * hosts.ranks()};
}

std::size_t largest_piece(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / (std::size_t{2} * hosts.ranks());
}

const Algorithm<AllToAllVc> kAlgorithm = {.name = "mesh_pairwise",
                                          .levels = Levels::equal_hosts,
                                          .cost = cost,
                                          .needs = needs,
                                          .largest_piece = largest_piece,
                                          .schedule = all_to_all_vc_mesh_pairwise};

}  // namespace
}  // namespace all_to_all_vc_mesh_pairwise

AnyAlgorithm describe(const struct AllToAllVcMeshPairwise*) {
  return all_to_all_vc_mesh_pairwise::kAlgorithm;
}

}  // namespace cohort
