// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/pulled.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/placed.h>

namespace cohort {
namespace reduce_scatter_direct {
namespace {

/// Every rank's memory is mapped: combine my block of all inputs in one pass.
template <class Op>
void combine_on_user_windows(Exec& x, const Op& op) {
  const Placed inputs(x, op.block(x.rank()));
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  x.perform(x.reduce(output, inputs.slices(), op.combine));
}

/// Every rank's memory can be read: pull my block of all inputs, chunk by chunk.
template <class Op>
Task<> from_user_windows(Exec& x, Op op) {
  co_await combine_pulled(x, op.block(x.rank()), op.recv, op.combine, op.element_bytes);
  co_await x.phase();
}

/// A piece of every rank's block lies in the CCL buffer, one after the other.
template <class Op>
Slice published(Exec& x, const Op& piece, std::size_t at, Rank block) {
  return x.ccl_in(at + block * piece.size_bytes(), piece.block(block).bytes);
}

template <class Op>
Task<> publish(Exec& x, Op piece, std::size_t at) {
  for (const Rank peer : x.peers()) co_await x.copy(published(x, piece, at, peer), piece.block(peer));
}

template <class Op>
Task<> combine_block(Exec& x, Op piece, std::size_t at) {
  Placed inputs(x, published(x, piece, at, x.rank()));
  inputs.replace(x.rank(), piece.block(x.rank()));
  const PlacedSlice output[] = {{x.rank(), piece.recv}};
  co_await x.reduce(output, inputs.slices(), piece.combine);
}

/// Private memory: publish a piece of every block in ccl_in, meet, combine mine while the next one is
/// published.
template <class Op>
Task<> through_ccl_buffers(Exec& x, Op op) {
  const Staging staging(x, op.size_bytes(), op.element_bytes, x.size());
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Op piece = op.part(staging.offset(k), staging.bytes(k));
    const std::size_t at = staging.place(k);
    co_await publish(x, piece, at);
    co_await x.phase();
    co_await combine_block(x, piece, at);
  }
}

/// Direct reduce_scatter, also of blocks that differ, on mapped memory: rank r combines block r of all
/// inputs, in rank order (determinism D3). Cost: 1 phase (zero copy), or 1 phase per piece of half a stage;
/// (p-1) * block bytes moved and reduced per rank. Streams: main. Scratch: none.
template <class Op>
Task<> reduce_scatter_direct(Exec& x, Op op) {
  return x.plan().reaches() ? from_user_windows(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double others = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = others, .bytes_reduced = others};
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost,
    .schedule = reduce_scatter_direct<Op>,
    .local = {.announces = Announces::windows, .combine = combine_on_user_windows<Op>}};

}  // namespace
}  // namespace reduce_scatter_direct

AnyAlgorithm describe(const struct ReduceScatterDirect*) {
  return reduce_scatter_direct::kAlgorithm<ReduceScatter>;
}

AnyAlgorithm describe(const struct ReduceScatterVDirect*) {
  return reduce_scatter_direct::kAlgorithm<ReduceScatterV>;
}

}  // namespace cohort
