// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/maybe_empty.h>
#include <cohort/collectives/schedule/signals.h>
#include <cohort/collectives/schedule/variant.h>

namespace cohort {
namespace {

/// One-shot scatter: the root hears from everybody, then sends everybody its block, all at once.
/// Cost: 2 rounds; (p-1) * block bytes sent by the root. Streams: main and p-1 sub streams of the root.
/// Scratch: none. Source: the star of the seed.
///
/// The Acks tell the root that all run the same collective, and what it sends after them tells the others.
/// With two ranks each hears from the other in any case, and the root need not wait before it sends: 1 round.
Task<> scatter_one_shot(Exec& x, Scatter op) {
  if (x.rank() != op.root) {
    Link& root = x.link(op.root);
    co_await root.post(Signal::Ack);
    co_await receive_or_wait(root, op.recv);
    co_return;
  }
  if (x.size() > 2) co_await hear_from_all(x);
  auto serve = [&](Rank peer) -> Task<> { return send_or_post(x.link(peer), op.block(peer)); };
  co_await x.fork_join(x.peers(), serve);
  co_await x.copy(op.recv, op.block(op.root));
  if (x.size() == 2) co_await hear_from_all(x);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks == 2 ? 1.0 : 2.0,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = n};
}

constexpr Algorithm<Scatter> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = scatter_one_shot};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace

AnyAlgorithm describe(const struct ScatterOneShot*) { return kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVOneShot*) { return kVariant; }

}  // namespace cohort
