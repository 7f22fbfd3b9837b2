// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_levels.h>
#include <cohort/collectives/schedules/links/packed_blocks.h>
#include <cohort/collectives/schedules/links/ring.h>

namespace cohort {
namespace reduce_scatter_v_mesh_ring {
namespace {

/// The sums of this host's ranks go around the hosts, in place.
Task<> reduce_across(Exec& across, const PackedBlocks& packed, ReduceScatterV op) {
  auto block = [&](Rank host) { return packed.in_own_place(host); };
  Ring ring(across);
  co_await ring.reduce_scatter(block, across.reducer(op.combine));
  co_await across.finish_average(op.combine, block(across.rank()));
  co_await across.copy(op.recv, block(across.rank()));
}

/// Two-level reduce_scatter of blocks that differ: inside of hosts, on a mesh, every rank gets what is for
/// the ranks in its place of all hosts, combined; rings across hosts combine that.
///
/// Cost, m hosts of q ranks: 1 + (m-1) rounds; (q-1) m * block bytes sent inside and (m-1) * block bytes
/// across per rank, each step as long as its largest block, and as much reduced.
///
/// Streams: main, and two or q-1 sub streams. Scratch: all blocks, and q-1 of each host for more than two
/// ranks. Order of reduction: by rank inside of a host, then around the ring (determinism D1). Source: as
/// reduce_scatter_mesh_nhr, with the ring that takes blocks of any size.
Task<> reduce_scatter_v_mesh_ring(Exec& x, ReduceScatterV op) {
  Exec& inside = x.inside();
  auto block = [&](Rank rank) { return op.block(rank); };
  const PackedBlocks packed(x, block);
  inside.use_scratch_from(packed.bytes());
  for (Rank rank = 0; rank < x.size(); ++rank) co_await x.copy(packed.block(rank), op.block(rank));
  if (x.across().size() == 1) {
    co_await exchange_shares(inside, packed, op.recv, op.combine);
    co_return;
  }
  const Slice sums = packed(inside.rank());
  if (inside.size() > 1) co_await exchange_shares(inside, packed, sums, levels::undivided(op.combine));
  co_await reduce_across(x.across(), packed, op);
}

Cost cost_of_ring(std::size_t bytes, Rank hosts) {
  const double n = static_cast<double>(bytes) * (hosts - 1);
  return {.rounds = hosts - 1.0,
          .bytes_moved = n,
          .bytes_reduced = n,
          .messages = hosts * (hosts - 1.0),
          .bytes_by_all = n * hosts};
}

Cost cost(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const bool has_own_result = hosts.count() > 1 || hosts.most_ranks() == 2;  // that is copied to recv
  return levels::reducing(levels::cost_inside(n * hosts.count(), hosts))
             .copying(n * (hosts.ranks() + (has_own_result ? 1.0 : 0.0))) +
         levels::cost_across(cost_of_ring, n, hosts);
}

Needs needs(std::size_t bytes, const Hosts& hosts) {
  return levels::in_rings(levels::needs_of_reduce_scatter(bytes, hosts));
}

std::size_t largest_piece(std::size_t buffer_bytes, const Hosts& hosts) {
  return levels::largest_of_reduce_scatter(buffer_bytes, hosts);
}

const Algorithm<ReduceScatterV> kAlgorithm = {.name = "mesh_ring",
                                              .levels = Levels::equal_hosts,
                                              .cost = cost,
                                              .needs = needs,
                                              .largest_piece = largest_piece,
                                              .schedule = reduce_scatter_v_mesh_ring};

}  // namespace
}  // namespace reduce_scatter_v_mesh_ring

AnyAlgorithm describe(const struct ReduceScatterVMeshRing*) { return reduce_scatter_v_mesh_ring::kAlgorithm; }

}  // namespace cohort
