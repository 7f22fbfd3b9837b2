// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/share_exchange.h>

namespace cohort {
namespace reduce_mesh {
namespace {

/// Two-shot mesh reduce: every rank combines its share of all inputs, then sends it to the root.
///
/// Cost: 2 rounds; (p-1)/p * bytes reduced and bytes sent per rank, 2(p-1)/p * bytes received by the root.
/// Streams: main and p-1 sub streams. Scratch: bytes, for p-1 contributions to my share and their sum. Order
/// of reduction: by rank (determinism D3). Source: Rabenseifner's reduce-scatter + gather (Thakur,
/// Rabenseifner, Gropp 2005, section 4.4), both steps on a mesh.
Task<> reduce_mesh(Exec& x, Reduce op) {
  const Blocks send(op.send, x.size(), op.element_bytes);
  const Blocks recv(op.recv, x.size(), op.element_bytes);
  const bool is_root = x.rank() == op.root;
  const std::size_t share_bytes = send[x.rank()].bytes;
  const Slice mine = is_root ? recv[x.rank()] : x.scratch((x.size() - 1) * share_bytes, share_bytes);
  co_await exchange_shares(x, send, mine, op.combine);
  if (!is_root) {
    co_await x.link(op.root).send(mine);
    co_return;
  }
  auto collect = [&](Rank peer) -> Task<> { return receive_slice(x.link(peer), recv[peer]); };
  co_await x.fork_join(x.peers(), collect);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 2,
          .bytes_moved = 2 * share,
          .bytes_reduced = share,
          .bytes_copied = ranks == 2 ? share : 0,
          .messages = (ranks + 1) * (ranks - 1.0),
          .bytes_by_all = share * (ranks + 1)};
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = scratch_for_shares(bytes, ranks)};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

const Algorithm<Reduce> kAlgorithm = {.name = "mesh",
                                      .order = ReductionOrder::by_rank_at_once,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_mesh};

}  // namespace
}  // namespace reduce_mesh

AnyAlgorithm describe(const struct ReduceMesh*) { return reduce_mesh::kAlgorithm; }

}  // namespace cohort
