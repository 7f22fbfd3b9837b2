// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/collected.h>
#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/signals.h>

namespace cohort {
namespace reduce_one_shot {
namespace {

/// With two ranks the one contribution is combined as it arrives: both orders of two operands give the same
/// bits.
Task<> combine_as_it_arrives(Exec& x, Reduce op) {
  Link& link = x.link(x.ahead(1));
  co_await link.post(Signal::Ack);
  co_await x.copy(op.recv, op.send);
  co_await link.recv_reduce(op.recv, x.last_reducer(op.combine));
}

/// What the root does with more of them: collect, then combine.
Task<> combine_all(Exec& x, Reduce op) {
  Collected inputs(x, op.send);
  auto receive = [&](Rank peer) -> Task<> { return receive_slice(x.link(peer), inputs.from(peer)); };
  co_await x.fork_join(x.peers(), receive);
  if (is_joint(op.send.bytes, x.size())) co_await tell_all(x);
  co_await inputs.combine_into(op.recv, op.combine);
}

/// One-shot reduce: everybody sends its whole input to the root, which combines all of them in rank order.
///
/// Cost: 1 round, 2 where all hear of each other (is_joint); (p-1) * bytes received and reduced by the root.
/// Streams: main and p-1 sub streams of the root. Scratch: (p-1) * bytes for more than two ranks. Order of
/// reduction: by rank (determinism D3).
Task<> reduce_one_shot(Exec& x, Reduce op) {
  if (x.rank() == op.root) {
    Task<> combining = x.size() == 2 ? combine_as_it_arrives(x, op) : combine_all(x, op);
    co_await combining;
    co_return;
  }
  Link& root = x.link(op.root);
  co_await root.send(op.send);
  if (is_joint(op.send.bytes, x.size())) co_await root.wait(Signal::Ack);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = rounds_of_star(bytes, ranks),
          .bytes_moved = n,
          .bytes_reduced = n,
          .bytes_copied = ranks == 2 ? n : 0,
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = n,
          .messages_to_one = ranks - 1.0};
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = ranks > 2 ? bytes * (ranks - 1) : 0};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return ranks > 2 ? buffer_bytes / (ranks - 1) : kWholeMessage;
}

const Algorithm<Reduce> kAlgorithm = {.name = "one_shot",
                                      .order = ReductionOrder::by_rank_at_once,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_one_shot};

}  // namespace
}  // namespace reduce_one_shot

AnyAlgorithm describe(const struct ReduceOneShot*) { return reduce_one_shot::kAlgorithm; }

}  // namespace cohort
