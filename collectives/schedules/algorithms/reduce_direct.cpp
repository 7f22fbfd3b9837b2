// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/pulled.h>
#include <cohort/collectives/schedules/memory/shares.h>
#include <cohort/collectives/schedules/memory/staged_shares.h>
#include <cohort/collectives/schedules/placed.h>

namespace cohort {
namespace reduce_direct {
namespace {

/// What every rank does with its share, as if all wanted the result.
AllReduce as_all_reduce(const Reduce& op) { return {op.send, op.at_root(), op.combine, op.element_bytes}; }

Wanted wanted(const Exec& x, const Reduce& op) {
  return x.rank() == op.root ? Wanted::here : Wanted::elsewhere;
}

/// Every rank's memory can be reached: pull my share of all inputs, chunk by chunk, and put the result into
/// the root's, through ccl_out. Nobody else touches my share there, so that one phase serves all.
Task<> through_user_windows(Exec& x, Reduce op) {
  const Slice share = Blocks(op.send, x.size(), op.element_bytes)[x.rank()];
  const Slice result = Blocks(op.at_root(), x.size(), op.element_bytes)[x.rank()];
  if (x.rank() == op.root) {
    co_await combine_pulled(x, share, result, op.combine, op.element_bytes);
  } else {
    const Staging staging(x, share.bytes, op.element_bytes);
    for (std::size_t k = 0; k < staging.pieces(); ++k) {
      const std::size_t at = staging.offset(k);
      const Slice combined = x.ccl_out(0, staging.bytes(k));
      co_await combine_pulled(x, share.part(at, combined.bytes), combined, op.combine, op.element_bytes);
      co_await x.push(op.root, result.part(at, combined.bytes), combined);
    }
  }
  co_await x.phase();
}

/// Private memory of two ranks that run at the same time: one publishes its vector piece by piece, and the
/// root combines a piece while the next one is published. What each would save by combining a share, its
/// publishing and the root's collecting cost again.
Task<> combine_at_root(Exec& x, Reduce op) {
  const bool is_root = x.rank() == op.root;
  const Staging staging = Staging::of_root(x, op.send.bytes, op.element_bytes);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const AllReduce piece = as_all_reduce(op.part(staging.offset(k), staging.bytes(k)));
    const Slice published = x.ccl_in(staging.place(k), piece.send.bytes);
    if (!is_root) co_await x.copy(published, piece.send);
    co_await x.phase();
    if (!is_root) continue;
    Placed inputs(x, published);
    inputs.replace(op.root, piece.send);
    const PlacedSlice result[] = {{op.root, piece.recv}};
    co_await x.reduce(result, inputs.slices(), op.combine);
  }
}

/// Direct reduce on mapped memory: rank r combines share r of all inputs, in rank order (determinism D3), for
/// the root.
///
/// Cost: 1 phase where the root's memory can be reached, or 1 per piece of half a stage, and 1 more for
/// shares that pass through the CCL buffers; (p-1)/p * bytes read and reduced per rank, as much again copied
/// by the root of those shares.
///
/// Streams: main. Scratch: none. Source: the reduce-scatter + gather composition of Rabenseifner 2004, with
/// loads and stores in place of messages.
Task<> reduce_direct(Exec& x, Reduce op) {
  if (x.plan().reaches()) return through_user_windows(x, op);
  if (x.size() == 2 && x.plan().has_core_each()) return combine_at_root(x, op);
  return reduce_through_ccl_buffers(x, as_all_reduce(op), wanted(x, op));
}

const Algorithm<Reduce> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost_of_own_share,
    .schedule = reduce_direct,
    .local = {.announces = Announces::windows, .combine = combine_own_share}};

}  // namespace
}  // namespace reduce_direct

AnyAlgorithm describe(const struct ReduceDirect*) { return reduce_direct::kAlgorithm; }

}  // namespace cohort
