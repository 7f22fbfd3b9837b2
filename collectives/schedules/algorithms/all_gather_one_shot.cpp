// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {
namespace all_gather_one_shot {
namespace {

/// One-shot all_gather, also of blocks that differ: every rank sends its block to every peer, all at once and
/// without asking first. Cost: 1 round; p-1 times its block sent per rank. Streams: main and p-1 sub streams.
/// Scratch: none.
template <class Op>
Task<> all_gather_one_shot(Exec& x, Op op) {
  co_await x.copy(op.block(x.rank()), op.send);
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await exchange(x, link, op.send, link, op.block(peer));
  };
  co_await x.fork_join(x.peers(), swap);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {
    .name = "one_shot", .cost = cost, .needs = links_to_all, .schedule = all_gather_one_shot<Op>};

}  // namespace
}  // namespace all_gather_one_shot

AnyAlgorithm describe(const struct AllGatherOneShot*) { return all_gather_one_shot::kAlgorithm<AllGather>; }

AnyAlgorithm describe(const struct AllGatherVOneShot*) { return all_gather_one_shot::kAlgorithm<AllGatherV>; }

}  // namespace cohort
