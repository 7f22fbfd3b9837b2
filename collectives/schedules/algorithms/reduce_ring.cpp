// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/chunks.h>

#include <limits>

namespace cohort {
namespace reduce_ring {
namespace {

/// Combines the chunks as they come and tells the forwarding stream, if there is one, of each.
Task<> combine_chunks(Link& previous, Slice sum, Reducer reducer, LocalNotify* summed) {
  for (std::size_t k = 0; k < chunks(sum); ++k) {
    co_await previous.recv_reduce(chunk(sum, k), reducer);
    if (summed != nullptr) summed->post();
  }
}

/// Ring reduce: a chain from the rank behind the root, around to the root, in chunks, every rank combining
/// one chunk while it passes on the sum of the one before; then a DataSignal around the chain lets all go.
///
/// Cost: 2(p-1) rounds; bytes sent and reduced per rank. Streams: main and two sub streams. Scratch: bytes,
/// as only the root has memory for a sum. Order of reduction: own value first, then the sum of those before
/// in the chain (determinism D1). Source: the chain of broadcast_ring, backwards.
Task<> reduce_ring(Exec& x, Reduce op) {
  Link& next = x.link(x.ahead(1));
  Link& previous = x.link(x.behind(1));
  LocalNotify summed = x.notify(std::numeric_limits<std::uint32_t>::max());
  const Reducer reducer = x.reducer(op.combine);
  const bool is_root = x.rank() == op.root;
  const bool is_first = x.behind(1) == op.root;
  const Slice sum = is_root ? op.recv : x.scratch(0, op.send.bytes);
  if (!is_first) co_await x.copy(sum, op.send);
  if (is_first) {
    post_chunks(op.send, summed);
    co_await pass_chunks(next, op.send, summed);
  } else if (is_root) {
    co_await combine_chunks(previous, sum, reducer, nullptr);
    co_await x.finish_average(op.combine, sum);
  } else {
    auto combine = [&] { return combine_chunks(previous, sum, reducer, &summed); };
    auto pass = [&] { return pass_chunks(next, sum, summed); };
    co_await x.fork_join(combine, pass);
  }
  if (!is_root) co_await previous.wait(Signal::DataSignal);
  if (x.ahead(1) != op.root) co_await next.post(Signal::DataSignal);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double others = ranks - 1.0;
  const double n = static_cast<double>(bytes);
  return {.rounds = 2 * others,
          .bytes_moved = bytes_on_way(bytes, others),
          .bytes_reduced = n,
          .bytes_copied = n,
          .messages = static_cast<double>(chunks_of(bytes) + 1) * others,
          .bytes_by_all = n * others};
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_neighbours = true, .scratch_bytes = bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

const Algorithm<Reduce> kAlgorithm = {.name = "ring",
                                      .distances = Distances::neighbours,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_ring};

}  // namespace
}  // namespace reduce_ring

AnyAlgorithm describe(const struct ReduceRing*) { return reduce_ring::kAlgorithm; }

}  // namespace cohort
