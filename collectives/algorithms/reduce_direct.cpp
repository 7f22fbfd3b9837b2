// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/blocks.h>
#include <cohort/collectives/schedule/placed.h>
#include <cohort/collectives/schedule/pulled.h>
#include <cohort/collectives/schedule/staging.h>

namespace cohort {
namespace {

/// Every rank's memory is mapped: combine my share of all inputs in one pass and store it at the root.
void combine_on_user_windows(Exec& x, const Reduce& op) {
  const Placed inputs(x, Blocks(op.send, x.size(), op.element_bytes)[x.rank()]);
  const PlacedSlice output[] = {{op.root, Blocks(op.at_root(), x.size(), op.element_bytes)[x.rank()]}};
  x.perform(x.reduce(output, inputs.slices(), op.combine));
}

/// Where my share of a piece goes: its place in the result at the root, elsewhere ccl_out for the root to
/// collect.
Slice place_of_share(Exec& x, const Reduce& piece, std::size_t at) {
  const bool is_root = x.rank() == piece.root;
  const Slice whole = is_root ? piece.recv : x.ccl_out(at, piece.send.bytes);
  return Blocks(whole, x.size(), piece.element_bytes)[x.rank()];
}

/// The root takes the others' shares of a piece.
Task<> collect(Exec& x, Reduce piece, std::size_t at) {
  if (x.rank() != piece.root) co_return;
  const Blocks from(x.ccl_out(at, piece.send.bytes), x.size(), piece.element_bytes);
  const Blocks to(piece.recv, x.size(), piece.element_bytes);
  for (const Rank peer : x.peers()) co_await x.copy_from(peer, to[peer], from[peer]);
}

/// Every rank's memory can be read: pull my share of all inputs, chunk by chunk. The shares go through the
/// halves of ccl_out in turn, so that one phase serves a piece.
Task<> from_user_windows(Exec& x, Reduce op) {
  const Staging staging(x.ccl_bytes(), op.send.bytes, op.element_bytes);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Reduce piece = op.part(staging.offset(k), staging.bytes(k));
    const Slice share = Blocks(piece.send, x.size(), op.element_bytes)[x.rank()];
    const Slice result = place_of_share(x, piece, staging.half(k));
    co_await combine_pulled(x, share, result, op.combine, op.element_bytes);
    co_await x.phase();
    co_await collect(x, piece, staging.half(k));
  }
  co_await x.phase();
}

/// Publishes what the others will combine: everything but my own share.
Task<> publish(Exec& x, Reduce piece, std::size_t at) {
  const Blocks from(piece.send, x.size(), piece.element_bytes);
  const Blocks to(x.ccl_in(at, piece.send.bytes), x.size(), piece.element_bytes);
  for (const Rank peer : x.peers()) co_await x.copy(to[peer], from[peer]);
}

Task<> combine_share(Exec& x, Reduce piece, std::size_t at) {
  const Rank me = x.rank();
  Placed inputs(x, Blocks(x.ccl_in(at, piece.send.bytes), x.size(), piece.element_bytes)[me]);
  inputs.replace(me, Blocks(piece.send, x.size(), piece.element_bytes)[me]);
  const PlacedSlice output[] = {{me, place_of_share(x, piece, at)}};
  co_await x.reduce(output, inputs.slices(), piece.combine);
}

/// Private memory: shares are exchanged through the CCL buffers. Piece k+1 is published before the phase that
/// makes piece k's shares visible, so that one phase serves both.
Task<> through_ccl_buffers(Exec& x, Reduce op) {
  const Staging staging(x.ccl_bytes(), op.send.bytes, op.element_bytes);
  auto piece = [&](std::size_t k) { return op.part(staging.offset(k), staging.bytes(k)); };
  if (staging.pieces() > 0) co_await publish(x, piece(0), staging.half(0));
  co_await x.phase();
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    co_await combine_share(x, piece(k), staging.half(k));
    if (k + 1 < staging.pieces()) co_await publish(x, piece(k + 1), staging.half(k + 1));
    co_await x.phase();
    co_await collect(x, piece(k), staging.half(k));
  }
  co_await x.phase();
}

/// Direct reduce on mapped memory: rank r combines share r of all inputs, in rank order (determinism D3), for
/// the root. Cost: 1 phase (zero copy), or 1 per piece of half a CCL buffer and 1 more; (p-1)/p * bytes read
/// and reduced per rank, as much again copied by the root unless all memory is mapped. Streams: main.
/// Scratch: none. Source: the reduce-scatter + gather composition of Rabenseifner 2004, with loads and stores
/// in place of messages.
Task<> reduce_direct(Exec& x, Reduce op) {
  return x.reads_user_windows() ? from_user_windows(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double others = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 1, .bytes_moved = others, .bytes_reduced = others};
}

}  // namespace

const Algorithm<Reduce> kReduceDirect = {
    .name = "direct",
    .ground = Ground::mapped,
    .cost = cost,
    .schedule = reduce_direct,
    .local = {.announces = Announces::windows, .combine = combine_on_user_windows}};

}  // namespace cohort
