// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/maybe_empty.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scatter_one_shot {
namespace {

/// One-shot scatter: the root sends everybody its block, all at once.
/// Cost: 1 round, 2 where all hear of each other (is_joint); (p-1) * block bytes sent by the root. Streams:
/// main and p-1 sub streams of the root. Scratch: none. Source: the star of the seed.
Task<> scatter_one_shot(Exec& x, Scatter op) {
  const bool joint = is_joint(op.size_bytes(), x.size());
  if (x.rank() != op.root) {
    if (joint) co_await x.link(op.root).post(Signal::Ack);
    co_await take_block(x.link(op.root), op.recv, joint);
    co_return;
  }
  if (joint && x.size() > 2) co_await hear_from_all(x);
  auto serve = [&](Rank peer) -> Task<> { return give_block(x.link(peer), op.block(peer), joint); };
  co_await x.fork_join(x.peers(), serve);
  co_await x.copy(op.recv, op.block(op.root));
  if (x.size() == 2) co_await hear_from_all(x);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = rounds_of_star(bytes, ranks),
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = n,
          .messages_of_one = ranks - 1.0,
          .bytes_of_one = n};
}

constexpr Algorithm<Scatter> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = scatter_one_shot};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace
}  // namespace scatter_one_shot

AnyAlgorithm describe(const struct ScatterOneShot*) { return scatter_one_shot::kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVOneShot*) { return scatter_one_shot::kVariant; }

}  // namespace cohort
