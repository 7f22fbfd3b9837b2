// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/share_exchange.h>

namespace cohort {
namespace all_reduce_mesh {
namespace {

/// Two-shot mesh all_reduce: every rank combines its share of all inputs, then sends it to everybody.
/// Cost: 2 rounds; 2(p-1)/p * bytes sent and (p-1)/p * bytes reduced per rank. Streams: main and p-1 sub
/// streams. Scratch: (p-1)/p * bytes for more than two ranks. Order of reduction: by rank (determinism D3).
Task<> all_reduce_mesh(Exec& x, AllReduce op) {
  const Blocks send(op.send, x.size(), op.element_bytes);
  const Blocks recv(op.recv, x.size(), op.element_bytes);
  co_await exchange_shares(x, send, recv[x.rank()], op.combine);
  co_await spread_shares(x, recv);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 2,
          .bytes_moved = 2 * share,
          .bytes_reduced = share,
          .bytes_copied = ranks == 2 ? share : 0,
          .messages = 2 * ranks * (ranks - 1.0),
          .bytes_by_all = 2 * share * ranks};
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = ranks > 2 ? scratch_for_shares(bytes, ranks) : 0};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return ranks > 2 ? buffer_bytes : kWholeMessage;
}

const Algorithm<AllReduce> kAlgorithm = {.name = "mesh",
                                         .order = ReductionOrder::by_rank_at_once,
                                         .cost = cost,
                                         .needs = needs,
                                         .largest_piece = largest_piece,
                                         .schedule = all_reduce_mesh};

}  // namespace
}  // namespace all_reduce_mesh

AnyAlgorithm describe(const struct AllReduceMesh*) { return all_reduce_mesh::kAlgorithm; }

}  // namespace cohort
