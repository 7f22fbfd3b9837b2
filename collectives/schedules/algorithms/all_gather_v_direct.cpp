// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/staging.h>

namespace cohort {
namespace all_gather_v_direct {
namespace {

/// All user windows are mapped: everybody takes every block, nearest peer first, so that not all read the
/// same one.
void take_all_blocks(Exec& x, const AllGatherV& op) {
  x.perform(x.copy(op.block(x.rank()), op.send));
  for (const Rank peer : x.peers()) x.perform(x.copy_from(peer, op.block(peer), op.at_giver(peer)));
}

/// Every rank's memory can be read.
Task<> from_user_windows(Exec& x, AllGatherV op) {
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) co_await x.pull(peer, op.block(peer), op.at_giver(peer));
  co_await x.phase();
}

/// What peers have left at `at` of their ccl_out.
Task<> collect(Exec& x, AllGatherV piece, std::size_t at) {
  for (const Rank peer : x.peers()) {
    const Slice block = piece.block(peer);
    co_await x.copy_from(peer, block, x.ccl_out(at, block.bytes));
  }
}

/// Private memory: publish a piece in ccl_out, meet, copy the peers' pieces while the next one is published.
Task<> through_ccl_buffers(Exec& x, AllGatherV op) {
  const Staging staging(x, op.size_bytes(), op.element_bytes);
  co_await x.copy(op.block(x.rank()), op.send);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const AllGatherV piece = op.part(staging.offset(k), staging.bytes(k));
    co_await x.copy(x.ccl_out(staging.place(k), piece.send.bytes), piece.send);
    co_await x.phase();
    co_await collect(x, piece, staging.place(k));
  }
}

/// Direct all_gather_v on mapped memory. Every rank pulls; nobody is asked.
/// Cost: 1 phase (zero copy), or 1 phase per piece of half a stage; all other blocks read per
/// rank. Streams: main. Scratch: none.
Task<> all_gather_v_direct(Exec& x, AllGatherV op) {
  return x.plan().reaches() ? from_user_windows(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

const Algorithm<AllGatherV> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .cost = cost,
    .schedule = all_gather_v_direct,
    .local = {.announces = Announces::windows, .combine = take_all_blocks}};

}  // namespace
}  // namespace all_gather_v_direct

AnyAlgorithm describe(const struct AllGatherVDirect*) { return all_gather_v_direct::kAlgorithm; }

}  // namespace cohort
