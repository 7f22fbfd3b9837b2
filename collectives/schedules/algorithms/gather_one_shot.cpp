// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/maybe_empty.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace gather_one_shot {
namespace {

/// One-shot gather: everybody sends its block to the root, all at once.
/// Cost: 1 round, 2 where all hear of each other (is_joint); (p-1) * block bytes received by the root.
/// Streams: main and p-1 sub streams of the root. Scratch: none. Source: the star of the seed.
Task<> gather_one_shot(Exec& x, Gather op) {
  const bool joint = is_joint(op.size_bytes(), x.size());
  if (x.rank() != op.root) {
    co_await give_block(x.link(op.root), op.send, joint);
    if (joint) co_await x.link(op.root).wait(Signal::Ack);
    co_return;
  }
  if (x.size() == 2) co_await tell_all(x);
  co_await x.copy(op.block(op.root), op.send);
  auto receive = [&](Rank peer) -> Task<> { return take_block(x.link(peer), op.block(peer), joint); };
  co_await x.fork_join(x.peers(), receive);
  if (joint && x.size() > 2) co_await tell_all(x);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = rounds_of_star(bytes, ranks),
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = n,
          .messages_to_one = ranks - 1.0};
}

constexpr Algorithm<Gather> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = gather_one_shot};

constexpr Algorithm<GatherV> kVariant = variant_of<GatherV, kAlgorithm>();

}  // namespace
}  // namespace gather_one_shot

AnyAlgorithm describe(const struct GatherOneShot*) { return gather_one_shot::kAlgorithm; }

AnyAlgorithm describe(const struct GatherVOneShot*) { return gather_one_shot::kVariant; }

}  // namespace cohort
