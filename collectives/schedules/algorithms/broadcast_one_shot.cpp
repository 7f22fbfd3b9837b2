// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/signals.h>

namespace cohort {
namespace broadcast_one_shot {
namespace {

/// One-shot broadcast: the root sends everything to everybody at once.
/// Cost: 1 round, 2 where all hear of each other (is_joint); (p-1) * bytes sent by the root. Streams: main
/// and p-1 sub streams of the root. Scratch: none.
Task<> broadcast_one_shot(Exec& x, Broadcast op) {
  const bool joint = is_joint(op.data.bytes, x.size());
  if (x.rank() != op.root) {
    Link& root = x.link(op.root);
    if (joint) co_await root.post(Signal::Ack);
    co_await root.recv(op.data);
    co_return;
  }
  if (joint && x.size() > 2) co_await hear_from_all(x);
  auto serve = [&](Rank peer) -> Task<> { return send_slice(x.link(peer), op.data); };
  co_await x.fork_join(x.peers(), serve);
  if (x.size() == 2) co_await hear_from_all(x);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = rounds_of_star(bytes, ranks),
          .bytes_moved = n,
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = n,
          .messages_of_one = ranks - 1.0,
          .bytes_of_one = n};
}

const Algorithm<Broadcast> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = broadcast_one_shot};

}  // namespace
}  // namespace broadcast_one_shot

AnyAlgorithm describe(const struct BroadcastOneShot*) { return broadcast_one_shot::kAlgorithm; }

}  // namespace cohort
