// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/staging.h>

namespace cohort {
namespace all_gather_direct {
namespace {

/// Every rank's memory can be read: copy each peer's block straight from its send buffer.
Task<> from_user_windows(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) co_await x.pull(peer, op.block(peer), op.send);
  co_await x.phase();
}

/// Private memory: publish a piece in ccl_out, meet, copy the peers' pieces while the next one is published.
Task<> through_ccl_buffers(Exec& x, AllGather op) {
  const Staging staging(x, op.send.bytes, op.element_bytes);
  co_await x.copy(op.block(x.rank()), op.send);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const AllGather piece = op.part(staging.offset(k), staging.bytes(k));
    const Slice mine = x.ccl_out(staging.place(k), piece.send.bytes);
    co_await x.copy(mine, piece.send);
    co_await x.phase();
    for (const Rank peer : x.peers()) co_await x.copy_from(peer, piece.block(peer), mine);
  }
}

/// Direct all_gather on mapped memory. Every rank pulls; nobody is asked.
/// Cost: 1 phase (zero copy), or 1 phase per piece of half a stage; (p-1) * block bytes read per rank.
/// Streams: main. Scratch: none.
Task<> all_gather_direct(Exec& x, AllGather op) {
  return x.plan().reaches() ? from_user_windows(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

const Algorithm<AllGather> kAlgorithm = {.name = "direct",
                                         .scope = Scope::node,
                                         .cost = cost,
                                         .schedule = all_gather_direct,
                                         .keeps_to_blocks = true};

}  // namespace
}  // namespace all_gather_direct

AnyAlgorithm describe(const struct AllGatherDirect*) { return all_gather_direct::kAlgorithm; }

}  // namespace cohort
