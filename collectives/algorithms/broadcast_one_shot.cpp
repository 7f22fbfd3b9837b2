// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/exchange.h>

namespace cohort {
namespace {

/// One-shot broadcast: the root hears from everybody, then sends everything to everybody at once.
/// Cost: 2 rounds; (p-1) * bytes sent by the root. Streams: main and p-1 sub streams of the root. Scratch:
/// none.
///
/// The Acks tell the root that all run the same collective: a rank that does not stops all of them, the root
/// included. With two ranks each hears from the other in any case, and the root need not wait for the Ack
/// before it sends: 1 round.
Task<> broadcast_one_shot(Exec& x, Broadcast op) {
  if (x.rank() != op.root) {
    Link& link = x.link(op.root);
    co_await link.post(Signal::Ack);
    co_await link.recv(op.data);
    co_return;
  }
  if (x.size() > 2)
    for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
  auto serve = [&](Rank peer) -> Task<> { return send_slice(x.link(peer), op.data); };
  co_await x.fork_join(x.peers(), serve);
  if (x.size() == 2) co_await x.link(x.ahead(1)).wait(Signal::Ack);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks == 2 ? 1.0 : 2.0,
          .bytes_moved = n,
          .bytes_reduced = 0,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = n};
}

const Algorithm<Broadcast> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = broadcast_one_shot};

}  // namespace

AnyAlgorithm describe(const struct BroadcastOneShot*) { return kAlgorithm; }

}  // namespace cohort
