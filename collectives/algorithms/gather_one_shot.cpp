// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/maybe_empty.h>
#include <cohort/collectives/schedule/signals.h>
#include <cohort/collectives/schedule/variant.h>

namespace cohort {
namespace {

/// One-shot gather: everybody sends its block to the root, all at once.
/// Cost: 2 rounds; (p-1) * block bytes received by the root. Streams: main and p-1 sub streams of the root.
/// Scratch: none. Source: the star of the seed.
///
/// The Acks tell everybody that all run the same collective: the root has heard from all when it posts them.
/// With two ranks each hears from the other in any case, and the root need not wait: 1 round.
Task<> gather_one_shot(Exec& x, Gather op) {
  if (x.rank() != op.root) {
    Link& root = x.link(op.root);
    co_await send_or_post(root, op.send);
    co_await root.wait(Signal::Ack);
    co_return;
  }
  if (x.size() == 2) co_await tell_all(x);
  co_await x.copy(op.block(op.root), op.send);
  auto receive = [&](Rank peer) -> Task<> { return receive_or_wait(x.link(peer), op.block(peer)); };
  co_await x.fork_join(x.peers(), receive);
  if (x.size() > 2) co_await tell_all(x);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks == 2 ? 1.0 : 2.0,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = n};
}

constexpr Algorithm<Gather> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = gather_one_shot};

constexpr Algorithm<GatherV> kVariant = variant_of<GatherV, kAlgorithm>();

}  // namespace

AnyAlgorithm describe(const struct GatherOneShot*) { return kAlgorithm; }

AnyAlgorithm describe(const struct GatherVOneShot*) { return kVariant; }

}  // namespace cohort
