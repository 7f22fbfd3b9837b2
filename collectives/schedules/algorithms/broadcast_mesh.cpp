// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {
namespace broadcast_mesh {
namespace {

/// What the root does with one peer: its block first, which that peer passes on, then the root's own block.
Task<> serve(Link& link, Slice theirs, Slice mine) {
  co_await link.send(theirs);
  co_await link.send(mine);
}

/// Two-shot mesh broadcast: the root scatters blocks, then everybody sends its block to everybody.
///
/// Cost: 3 rounds, with the Acks that tell the root that all run the same collective; (p-1)/p * bytes sent
/// per rank, twice that by the root. Streams: main and p-1 sub streams. Scratch: none. Source: van de Geijn's
/// scatter + all-gather broadcast (Barnett et al. 1994), both steps on a mesh.
Task<> broadcast_mesh(Exec& x, Broadcast op) {
  const Blocks block(op.data, x.size(), op.element_bytes);
  const Slice mine = block[x.rank()];
  if (x.rank() == op.root) {
    for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
    auto scatter = [&](Rank peer) -> Task<> { return serve(x.link(peer), block[peer], mine); };
    co_await x.fork_join(x.peers(), scatter);
    co_return;
  }
  Link& root = x.link(op.root);
  co_await root.post(Signal::Ack);
  co_await root.recv(mine);
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    if (peer == op.root)
      co_await link.recv(block[peer]);
    else
      co_await exchange(x, link, mine, link, block[peer]);
  };
  co_await x.fork_join(x.peers(), swap);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = ranks == 2 ? 2.0 : 3.0,
          .bytes_moved = 2 * share,
          .bytes_reduced = 0,
          .messages = 3 * (ranks - 1.0) + (ranks - 1.0) * (ranks - 2.0),
          .bytes_by_all = static_cast<double>(bytes) * (ranks - 1)};
}

const Algorithm<Broadcast> kAlgorithm = {
    .name = "mesh", .cost = cost, .needs = links_to_all, .schedule = broadcast_mesh};

}  // namespace
}  // namespace broadcast_mesh

AnyAlgorithm describe(const struct BroadcastMesh*) { return broadcast_mesh::kAlgorithm; }

}  // namespace cohort
