// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/ring.h>
#include <cohort/collectives/schedules/operators/list.h>

/// Operators by one Ring, for algorithms of which it is all or a level. Patarasuk and Yuan 2009.
namespace cohort::ring {

/// A reduce_scatter, then an all_gather, on the receive buffer. Streams: main. Scratch: none.
inline Task<> all_reduce(Exec& x, AllReduce op) {
  Ring ring(x);
  const Blocks blocks(op.recv, x.size(), op.element_bytes);
  auto block = [&](Rank rank) { return blocks[rank]; };
  co_await x.copy(op.recv, op.send);
  co_await ring.reduce_scatter(block, x.reducer(op.combine));
  co_await x.finish_average(op.combine, blocks[x.rank()]);
  co_await ring.all_gather(block);
}

[[nodiscard]] inline Cost cost_of_all_reduce(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 2.0 * (ranks - 1),
          .bytes_moved = 2 * share,
          .bytes_reduced = share,
          .bytes_copied = static_cast<double>(bytes),
          .messages = 2 * ranks * (ranks - 1.0),
          .bytes_by_all = 2 * share * ranks};
}

}  // namespace cohort::ring
