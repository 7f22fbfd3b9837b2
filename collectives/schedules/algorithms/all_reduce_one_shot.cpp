// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/collected.h>
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {
namespace all_reduce_one_shot {
namespace {

/// One-shot all_reduce: everybody sends its whole input to everybody, and everybody combines all of them in
/// rank order. Cost: 1 round; (p-1) * bytes sent and reduced per rank. Streams: main and p-1 sub streams.
/// Scratch: (p-1) * bytes. Order of reduction: by rank (determinism D3).
Task<> all_reduce_one_shot(Exec& x, AllReduce op) {
  Collected inputs(x, op.send);
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await exchange(x, link, op.send, link, inputs.from(peer));
  };
  co_await x.fork_join(x.peers(), swap);
  co_await inputs.combine_into(op.recv, op.combine);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1,
          .bytes_moved = n,
          .bytes_reduced = n,
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = bytes * (ranks - 1)};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return buffer_bytes / std::max<Rank>(1, ranks - 1);
}

const Algorithm<AllReduce> kAlgorithm = {.name = "one_shot",
                                         .order = ReductionOrder::by_rank_at_once,
                                         .cost = cost,
                                         .needs = needs,
                                         .largest_piece = largest_piece,
                                         .schedule = all_reduce_one_shot};

}  // namespace
}  // namespace all_reduce_one_shot

AnyAlgorithm describe(const struct AllReduceOneShot*) { return all_reduce_one_shot::kAlgorithm; }

}  // namespace cohort
