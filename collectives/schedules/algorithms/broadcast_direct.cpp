// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/shares.h>
#include <cohort/collectives/schedules/memory/staging.h>

namespace cohort {
namespace broadcast_direct {
namespace {

/// The root's memory can be read.
Task<> from_user_window(Exec& x, Broadcast op) {
  if (x.rank() != op.root) co_await x.pull(op.root, op.data, op.data);
  co_await x.phase();
}

/// Private memory: the root publishes pieces in ccl_out, everybody copies them out behind it.
Task<> through_ccl_buffer(Exec& x, Broadcast op) {
  const Staging staging = Staging::of_root(x, op.data.bytes, op.element_bytes);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Slice piece = op.data.part(staging.offset(k), staging.bytes(k));
    const Slice published = x.ccl_out(staging.place(k), piece.bytes);
    if (x.rank() == op.root) co_await x.copy(published, piece);
    co_await x.phase();
    if (x.rank() != op.root) co_await x.copy_from(op.root, piece, published);
  }
}

/// Direct broadcast on mapped memory: everybody reads the root's buffer; the root stores a share at its peers
/// where all memory is mapped. Cost: 1 phase (zero copy), or 1 phase per piece of half a stage; (p-1)/p *
/// bytes read, or stored by the root, per rank, or bytes read where not all is mapped. Streams: main.
/// Scratch: none.
Task<> broadcast_direct(Exec& x, Broadcast op) {
  return x.plan().reaches() ? from_user_window(x, op) : through_ccl_buffer(x, op);
}

/// Of mapped memory.
Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1) / ranks};
}

const Algorithm<Broadcast> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .cost = cost,
    .schedule = broadcast_direct,
    .local = {.announces = Announces::windows, .combine = copy_at_both_ends}};

}  // namespace
}  // namespace broadcast_direct

AnyAlgorithm describe(const struct BroadcastDirect*) { return broadcast_direct::kAlgorithm; }

}  // namespace cohort
