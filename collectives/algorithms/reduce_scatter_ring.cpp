// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/ring.h>

namespace cohort {
namespace {

/// Where the partial sum that a rank passes on in each step lies: two places that alternate, so that a block
/// is received while the one before is still being sent.
Slice partial(Exec& x, const ReduceScatter& op, Rank step) {
  return x.scratch(step % 2 * op.recv.bytes, op.recv.bytes);
}

/// Ring reduce_scatter: a partial sum of each block travels once around, growing, and ends at its owner.
/// Cost: p-1 rounds; (p-1) * block bytes sent and reduced per rank. Streams: main. Scratch: 2 * block bytes;
/// the caller's input stays as it is. Order of reduction: around the ring (determinism D1). Source: Chan et
/// al. 2007.
Task<> reduce_scatter_ring(Exec& x, ReduceScatter op) {
  Ring ring(x);
  const Reducer reducer = x.reducer(op.combine);
  co_await x.copy(partial(x, op, 0), op.block(ring.behind(1)));
  for (Rank step = 0; step + 1 < ring.size(); ++step) {
    const Slice next = partial(x, op, step + 1);
    co_await x.copy(next, op.block(ring.behind(step + 2)));
    co_await ring.shift_reduce(partial(x, op, step), next, reducer);
  }
  const Slice sum = partial(x, op, ring.size() - 1);
  co_await x.finish_average(op.combine, sum);
  co_await x.copy(op.recv, sum);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_reduced = n,
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_neighbours = true, .scratch_bytes = 2 * bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes / 2; }

}  // namespace

const Algorithm<ReduceScatter> kReduceScatterRing = {.name = "ring",
                                                     .cost = cost,
                                                     .needs = needs,
                                                     .largest_piece = largest_piece,
                                                     .schedule = reduce_scatter_ring};

}  // namespace cohort
