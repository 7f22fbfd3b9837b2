// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/ring.h>

namespace cohort {
namespace all_reduce_two_rings {
namespace {

/// All_reduce on two rings: the first half of every block as by ring, the second half the other way around.
///
/// Cost: 2(p-1) rounds of two messages; 2(p-1)/p * bytes sent and (p-1)/p * bytes reduced per rank, half of
/// them each way. Streams: main and two sub streams, which fork two more in each step. Scratch: none. Order
/// of reduction: around the ring, fixed per element (determinism D1). Source: Patarasuk and Yuan 2009, in
/// both directions.
Task<> all_reduce_two_rings(Exec& x, AllReduce op) {
  TwoRings rings(x);
  const Blocks blocks(op.recv, x.size(), op.element_bytes);
  auto first = [&](Rank rank) { return half_ahead(blocks[rank], op.element_bytes); };
  auto second = [&](Rank rank) { return half_back(blocks[rank], op.element_bytes); };
  const Reducer reducer = x.reducer(op.combine);
  auto reduce_ahead = [&] { return rings.ahead().reduce_scatter(first, reducer); };
  auto reduce_back = [&] { return rings.back().reduce_scatter(second, reducer); };
  auto gather_ahead = [&] { return rings.ahead().all_gather(first); };
  auto gather_back = [&] { return rings.back().all_gather(second); };
  co_await x.copy(op.recv, op.send);
  co_await x.fork_join(reduce_ahead, reduce_back);
  co_await x.finish_average(op.combine, blocks[x.rank()]);
  co_await x.fork_join(gather_ahead, gather_back);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 2.0 * (ranks - 1),
          .bytes_moved = 2 * share,
          .bytes_reduced = share,
          .bytes_copied = static_cast<double>(bytes),
          .messages = 4 * ranks * (ranks - 1.0),
          .bytes_by_all = 2 * share * ranks};
}

Needs needs(std::size_t, Rank ranks) { return TwoRings::needs(0, ranks); }

const Algorithm<AllReduce> kAlgorithm = {.name = "two_rings",
                                         .distances = Distances::neighbours,
                                         .cost = cost,
                                         .needs = needs,
                                         .schedule = all_reduce_two_rings};

}  // namespace
}  // namespace all_reduce_two_rings

AnyAlgorithm describe(const struct AllReduceTwoRings*) { return all_reduce_two_rings::kAlgorithm; }

}  // namespace cohort
