// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/chunks.h>

#include <limits>

namespace cohort {
namespace {

/// Ring broadcast: a chain from the root around to the rank before it, in chunks, every rank receiving one
/// chunk while it passes on the one before. The last rank closes the ring with an Ack, and a DataSignal
/// around the chain lets all go: nobody leaves before all have it, so that a disagreement reaches every rank.
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
    co_await previous.wait(Signal::Ack);
  } else if (is_last) {
    co_await take_chunks(previous, op.data, nullptr);
    co_await next.post(Signal::Ack);
  } else {
    auto take = [&] { return take_chunks(previous, op.data, &arrived); };
    auto pass = [&] { return pass_chunks(next, op.data, arrived); };
    co_await x.fork_join(take, pass);
  }
  if (!is_root) co_await previous.wait(Signal::DataSignal);
  if (!is_last) co_await next.post(Signal::DataSignal);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double others = ranks - 1.0;
  return {.rounds = 2.0 * ranks - 1.0,
          .bytes_moved = bytes_on_way(bytes, others),
          .messages = static_cast<double>(chunks_of(bytes) + 1) * others + 1,
          .bytes_by_all = static_cast<double>(bytes) * others};
}

const Algorithm<Broadcast> kAlgorithm = {.name = "ring",
                                         .distances = Distances::neighbours,
                                         .cost = cost,
                                         .needs = links_to_neighbours,
                                         .schedule = broadcast_ring};

}  // namespace

AnyAlgorithm describe(const struct BroadcastRing*) { return kAlgorithm; }

}  // namespace cohort
