// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/ring.h>

namespace cohort {
namespace reduce_scatter_ring {
namespace {

/// Ring reduce_scatter, also of blocks that differ: a partial sum of each block travels once around, growing,
/// and ends at its owner.
///
/// Cost: p-1 rounds; all other blocks sent and reduced per rank, each step as long as its largest block.
/// Streams: main and two sub streams. Scratch: twice the largest block; the caller's input stays as it is.
/// Order of reduction: around the ring (determinism D1). Source: Chan et al. 2007.
template <class Op>
Task<> reduce_scatter_ring(Exec& x, Op op) {
  Ring ring(x);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await ring.reduce_scatter_apart(block, x.scratch(0, 2 * op.size_bytes()), op.recv, op.combine);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_reduced = n,
          .bytes_copied = static_cast<double>(bytes) * (ranks + 1.0),
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_neighbours = true, .scratch_bytes = 2 * bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes / 2; }

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "ring",
                                      .distances = Distances::neighbours,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_scatter_ring<Op>};

}  // namespace
}  // namespace reduce_scatter_ring

AnyAlgorithm describe(const struct ReduceScatterRing*) {
  return reduce_scatter_ring::kAlgorithm<ReduceScatter>;
}

AnyAlgorithm describe(const struct ReduceScatterVRing*) {
  return reduce_scatter_ring::kAlgorithm<ReduceScatterV>;
}

}  // namespace cohort
