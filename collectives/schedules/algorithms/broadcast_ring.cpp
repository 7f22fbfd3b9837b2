// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/chunks.h>

#include <limits>

namespace cohort {
namespace broadcast_ring {
namespace {

/// Ring broadcast: a chain from the root around to the rank before it, in chunks, every rank receiving one
/// chunk while it passes on the one before; then the chain is closed.
/// Cost: 2p - 1 + chunks rounds; bytes sent per rank. Streams: main and one sub stream. Scratch: none.
Task<> broadcast_ring(Exec& x, Broadcast op) {
  Link& next = x.link(x.ahead(1));
  Link& previous = x.link(x.behind(1));
  LocalNotify arrived = x.notify(std::numeric_limits<std::uint32_t>::max());
  const bool is_root = x.rank() == op.root;
  const bool is_last = x.ahead(1) == op.root;
  if (is_root) {
    post_chunks(op.data, arrived);
    co_await pass_chunks(next, op.data, arrived);
  } else if (is_last) {
    co_await take_chunks(previous, op.data, nullptr);
  } else {
    auto take = [&] { return take_chunks(previous, op.data, &arrived); };
    auto pass = [&] { return pass_chunks(next, op.data, arrived); };
    co_await x.fork_join(take, pass);
  }
  co_await close_chain(x, op.root);
}

const Algorithm<Broadcast> kAlgorithm = {.name = "ring",
                                         .distances = Distances::neighbours,
                                         .cost = cost_of_closed_chain,
                                         .needs = links_to_neighbours,
                                         .schedule = broadcast_ring};

}  // namespace
}  // namespace broadcast_ring

AnyAlgorithm describe(const struct BroadcastRing*) { return broadcast_ring::kAlgorithm; }

}  // namespace cohort
