// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/ring.h>

namespace cohort {
namespace {

/// Ring all_reduce: ring reduce_scatter, then ring all_gather, on the receive buffer.
/// Cost: 2(p-1) rounds; 2(p-1)/p * bytes sent and (p-1)/p * bytes reduced per rank. Streams: main. Scratch:
/// none. Order of reduction: around the ring, fixed per element (determinism D1). Source: Patarasuk and Yuan
/// 2009.
Task<> all_reduce_ring(Exec& x, AllReduce op) {
  Ring ring(x);
  const Blocks blocks(op.recv, x.size(), op.element_bytes);
  auto block = [&](Rank rank) { return blocks[rank]; };
  co_await x.copy(op.recv, op.send);
  co_await ring.reduce_scatter(block, x.reducer(op.combine));
  co_await x.finish_average(op.combine, blocks[x.rank()]);
  co_await ring.all_gather(block);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 2.0 * (ranks - 1),
          .bytes_moved = 2 * share,
          .bytes_reduced = share,
          .messages = 2 * ranks * (ranks - 1.0),
          .bytes_by_all = 2 * share * ranks};
}

const Algorithm<AllReduce> kAlgorithm = {
    .name = "ring", .cost = cost, .needs = links_to_neighbours, .schedule = all_reduce_ring};

}  // namespace

AnyAlgorithm describe(const struct AllReduceRing*) { return kAlgorithm; }

}  // namespace cohort
