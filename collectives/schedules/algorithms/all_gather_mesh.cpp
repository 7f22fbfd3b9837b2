// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

namespace cohort {
namespace all_gather_mesh {
namespace {

/// Mesh all_gather: every rank reads every peer's block, all peers at once. The Hello World of schedules.
/// Cost: 4 rounds; (p-1) * block bytes read per rank. Streams: main and p-1 sub streams. Scratch: none.
/// Source: the seed's mesh executor for one server; Thakur, Rabenseifner, Gropp 2005, section 3.
Task<> all_gather_mesh(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await x.copy(mine, op.send);  // main: publish my block

  auto exchange = [&](Rank peer) -> Task<> {  // one sub stream per peer
    Link& link = x.link(peer);
    co_await link.post(Signal::Ack);          // my block may be read
    co_await link.wait(Signal::Ack);          // yours too
    co_await link.get(mine, op.block(peer));  // the same place in your window
    co_await link.post(Signal::DataSignal);   // I am done with your window
    co_await link.wait(Signal::DataSignal);   // you are done with mine
  };
  co_await x.copy(op.block(x.rank()), op.send);  // main: my own block
  co_await x.fork_join(x.peers(), exchange);
}

Cost cost(std::size_t bytes, Rank ranks) {
  // A signal, a read there and back, and the signal that lets the peer go: four one-way latencies.
  // In each direction of each pair: two signals, a request, and the reply with the bytes.
  const double pairs = ranks * (ranks - 1.0);
  const double n = static_cast<double>(bytes);
  return {.rounds = 4,
          .bytes_moved = n * (ranks - 1),
          .bytes_copied = 2 * n,
          .messages = 4 * pairs,
          .bytes_by_all = n * pairs};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

const Algorithm<AllGather> kAlgorithm = {.name = "mesh",
                                         .cost = cost,
                                         .needs = links_to_all,
                                         .largest_piece = largest_piece,
                                         .schedule = all_gather_mesh};

}  // namespace
}  // namespace all_gather_mesh

AnyAlgorithm describe(const struct AllGatherMesh*) { return all_gather_mesh::kAlgorithm; }

}  // namespace cohort
