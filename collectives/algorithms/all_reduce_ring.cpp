// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/blocks.h>
#include <cohort/collectives/schedule/ring.h>

namespace cohort {
namespace {

/// Ring all_reduce: ring reduce_scatter, then ring all_gather, on the receive buffer.
/// Cost: 2(p-1) rounds; 2(p-1)/p * bytes sent and (p-1)/p * bytes reduced per rank. Streams: main. Scratch:
/// none. Order of reduction: around the ring, fixed per element (determinism D1). Source: Patarasuk and Yuan
/// 2009.
Task<> all_reduce_ring(Exec& x, AllReduce op) {
  Ring ring(x);
  const Blocks block(op.recv, ring.size(), op.element_bytes);
  const Reducer reducer = x.reducer(op.combine);
  co_await x.copy(op.recv, op.send);
  for (Rank step = 0; step + 1 < ring.size(); ++step)
    co_await ring.shift_reduce(block[ring.behind(step + 1)], block[ring.behind(step + 2)], reducer);
  co_await x.finish_average(op.combine, block[x.rank()]);
  for (Rank step = 0; step + 1 < ring.size(); ++step)
    co_await ring.shift(block[ring.behind(step)], block[ring.behind(step + 1)]);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 2.0 * (ranks - 1),
          .bytes_moved = 2 * share,
          .bytes_reduced = share,
          .messages = 2 * ranks * (ranks - 1.0),
          .bytes_by_all = 2 * share * ranks};
}

}  // namespace

const Algorithm<AllReduce> kAllReduceRing = {
    .name = "ring", .cost = cost, .needs = links_to_neighbours, .schedule = all_reduce_ring};

}  // namespace cohort
