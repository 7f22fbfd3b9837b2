// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/block_exchange.h>
#include <cohort/collectives/schedules/links/by_levels.h>
#include <cohort/collectives/schedules/links/packed_blocks.h>

namespace cohort {
namespace all_gather_v_mesh_one_shot {
namespace {

/// Two-level all_gather of blocks that differ: every rank exchanges blocks with those in its place of all
/// other hosts, at once, and passes them on inside of its host, on a mesh.
///
/// Cost, m hosts of q ranks: 2 rounds; m-1 times its block sent across and (q-1) m * block bytes inside per
/// rank. Streams: main, and two for each peer of a level. Scratch: all blocks. Source: as
/// all_gather_mesh_nhr, with the exchange that takes blocks of any size.
Task<> all_gather_v_mesh_one_shot(Exec& x, AllGatherV op) {
  Exec& across = x.across();
  auto block = [&](Rank rank) { return op.block(rank); };
  const PackedBlocks packed(x, block);
  auto in_place = [&](Rank host) { return packed.in_own_place(host); };
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.copy(packed.block(x.rank()), op.send);
  co_await spread_or_signal(across, in_place);
  co_await spread_or_signal(x.inside(), packed);
  for (Rank rank = 0; rank < x.size(); ++rank)
    if (rank != x.rank()) co_await x.copy(op.block(rank), packed.block(rank));
}

Cost cost_of_one_shot(std::size_t bytes, Rank hosts) {
  return cost_of_shares(static_cast<double>(bytes), hosts);
}

Cost cost(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  return levels::cost_across(cost_of_one_shot, n, hosts) +
         levels::cost_inside(n * hosts.count(), hosts).copying(n * (hosts.ranks() + 1.0));
}

Needs needs(std::size_t bytes, const Hosts& hosts) {
  return {.links_inside = true, .links_across = true, .scratch_bytes = bytes * hosts.ranks()};
}

std::size_t largest_piece(std::size_t buffer_bytes, const Hosts& hosts) {
  return buffer_bytes / hosts.ranks();
}

const Algorithm<AllGatherV> kAlgorithm = {.name = "mesh_one_shot",
                                          .levels = Levels::equal_hosts,
                                          .cost = cost,
                                          .needs = needs,
                                          .largest_piece = largest_piece,
                                          .schedule = all_gather_v_mesh_one_shot};

}  // namespace
}  // namespace all_gather_v_mesh_one_shot

AnyAlgorithm describe(const struct AllGatherVMeshOneShot*) { return all_gather_v_mesh_one_shot::kAlgorithm; }

}  // namespace cohort
