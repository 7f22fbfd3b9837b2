// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/ring.h>

namespace cohort {
namespace reduce_scatter_two_rings {
namespace {

/// Reduce_scatter on two rings: the first half of every block as by ring, the second half the other way
/// around.
///
/// Cost: p-1 rounds of two messages; (p-1) * block bytes sent and reduced per rank, half of them each way.
///
/// Streams: main and two sub streams, which fork two more in each step. Scratch: 2 * block bytes; the
/// caller's input stays as it is. Order of reduction: around the ring (determinism D1). Source: Chan et al.
/// 2007, in both directions.
Task<> reduce_scatter_two_rings(Exec& x, ReduceScatter op) {
  TwoRings rings(x);
  const Slice result = half_ahead(op.recv, op.element_bytes);
  const Slice result_back = half_back(op.recv, op.element_bytes);
  auto first = [&](Rank rank) { return half_ahead(op.block(rank), op.element_bytes); };
  auto second = [&](Rank rank) { return half_back(op.block(rank), op.element_bytes); };
  auto ahead = [&] {
    const Slice room = x.scratch(0, 2 * result.bytes);
    return rings.ahead().reduce_scatter_apart(first, room, result, op.combine);
  };
  auto back = [&] {
    const Slice room = x.scratch(2 * result.bytes, 2 * result_back.bytes);
    return rings.back().reduce_scatter_apart(second, room, result_back, op.combine);
  };
  co_await x.fork_join(ahead, back);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_reduced = n,
          .bytes_copied = static_cast<double>(bytes) * (ranks + 1.0),
          .messages = 2 * ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

Needs needs(std::size_t bytes, Rank ranks) { return TwoRings::needs(2 * bytes, ranks); }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes / 2; }

const Algorithm<ReduceScatter> kAlgorithm = {.name = "two_rings",
                                             .distances = Distances::neighbours,
                                             .cost = cost,
                                             .needs = needs,
                                             .largest_piece = largest_piece,
                                             .schedule = reduce_scatter_two_rings};

}  // namespace
}  // namespace reduce_scatter_two_rings

AnyAlgorithm describe(const struct ReduceScatterTwoRings*) { return reduce_scatter_two_rings::kAlgorithm; }

}  // namespace cohort
