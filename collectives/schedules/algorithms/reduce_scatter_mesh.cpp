// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/share_exchange.h>

namespace cohort {
namespace reduce_scatter_mesh {
namespace {

/// Mesh reduce_scatter, also of blocks that differ: every rank sends each peer that peer's block and combines
/// what it gets, in rank order. Cost: 1 round; all other blocks sent, (p-1) * block bytes reduced per rank.
/// Streams: main and p-1 sub streams. Scratch: (p-1) * block bytes for more than two ranks. Order of
/// reduction: by rank (determinism D3).
template <class Op>
Task<> reduce_scatter_mesh(Exec& x, Op op) {
  auto share = [&](Rank rank) { return op.block(rank); };
  co_await exchange_shares(x, share, op.recv, op.combine);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1,
          .bytes_moved = n,
          .bytes_reduced = n,
          .bytes_copied = ranks == 2 ? n : 0,
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = ranks > 2 ? bytes * (ranks - 1) : 0};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return ranks > 2 ? buffer_bytes / (ranks - 1) : kWholeMessage;
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "mesh",
                                      .order = ReductionOrder::by_rank_at_once,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_scatter_mesh<Op>};

}  // namespace
}  // namespace reduce_scatter_mesh

AnyAlgorithm describe(const struct ReduceScatterMesh*) {
  return reduce_scatter_mesh::kAlgorithm<ReduceScatter>;
}

AnyAlgorithm describe(const struct ReduceScatterVMesh*) {
  return reduce_scatter_mesh::kAlgorithm<ReduceScatterV>;
}

}  // namespace cohort
