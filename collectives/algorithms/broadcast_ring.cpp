// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/exchange.h>

#include <cmath>
#include <limits>

namespace cohort {
namespace {

/// Long enough to amortise a message, short enough that the chain fills soon.
constexpr std::size_t kChunkBytes = 256 * 1024;

/// At least one, so that an empty broadcast, too, goes through all ranks.
std::size_t chunks(const Slice& data) {
  return std::max<std::size_t>(1, (data.bytes + kChunkBytes - 1) / kChunkBytes);
}

Slice chunk(const Slice& data, std::size_t index) {
  const std::size_t at = index * kChunkBytes;
  return data.part(at, std::min(kChunkBytes, data.bytes - at));
}

/// Receives the chunks one after the other and tells the forwarding stream, if there is one, of each.
Task<> take_chunks(Link& previous, Slice data, LocalNotify* arrived) {
  for (std::size_t k = 0; k < chunks(data); ++k) {
    co_await previous.recv(chunk(data, k));
    if (arrived != nullptr) arrived->post();
  }
}

Task<> pass_chunks(Link& next, Slice data, LocalNotify& arrived) {
  for (std::size_t k = 0; k < chunks(data); ++k) {
    co_await arrived.wait();
    co_await next.send(chunk(data, k));
  }
}

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
    for (std::size_t k = 0; k < chunks(op.data); ++k) arrived.post();
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
  const double n = static_cast<double>(bytes);
  const double fill = static_cast<double>(std::min(bytes, kChunkBytes)) * (ranks - 2.0);
  const double chunks = std::ceil(n / static_cast<double>(kChunkBytes));
  return {.rounds = 2.0 * ranks - 1.0,
          .bytes_moved = n + fill,
          .bytes_reduced = 0,
          .messages = (chunks + 1) * (ranks - 1.0) + 1,
          .bytes_by_all = n * (ranks - 1)};
}

const Algorithm<Broadcast> kAlgorithm = {
    .name = "ring", .cost = cost, .needs = links_to_neighbours, .schedule = broadcast_ring};

}  // namespace

AnyAlgorithm describe(const struct BroadcastRing*) { return kAlgorithm; }

}  // namespace cohort
