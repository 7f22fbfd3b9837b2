// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/pulled.h>
#include <cohort/collectives/schedule/shares.h>
#include <cohort/collectives/schedule/staging.h>

namespace cohort {
namespace {

/// Every rank's memory can be read: combine my share of all inputs, meet, pull the other shares.
Task<> from_user_windows(Exec& x, AllReduce op) {
  const Blocks send(op.send, x.size(), op.element_bytes);
  const Blocks recv(op.recv, x.size(), op.element_bytes);
  co_await combine_pulled(x, send[x.rank()], recv[x.rank()], op.combine, op.element_bytes);
  co_await x.phase();
  for (const Rank peer : x.peers()) co_await x.pull(peer, recv[peer], recv[peer]);
  co_await x.phase();
}

/// Publishes what the others will combine: everything but my own share.
Task<> publish(Exec& x, AllReduce piece, std::size_t at) {
  const Blocks from(piece.send, x.size(), piece.element_bytes);
  const Blocks to(x.ccl_in(at, piece.send.bytes), x.size(), piece.element_bytes);
  for (const Rank peer : x.peers()) co_await x.copy(to[peer], from[peer]);
}

/// Combines my share of all ranks' inputs into my output and into ccl_out.
Task<> combine_share(Exec& x, AllReduce piece, std::size_t at) {
  const Rank me = x.rank();
  const Slice in = Blocks(x.ccl_in(at, piece.send.bytes), x.size(), piece.element_bytes)[me];
  const Slice out = Blocks(x.ccl_out(at, piece.send.bytes), x.size(), piece.element_bytes)[me];
  Placed inputs(x, in);
  inputs.replace(me, Blocks(piece.send, x.size(), piece.element_bytes)[me]);
  const PlacedSlice outputs[] = {{me, Blocks(piece.recv, x.size(), piece.element_bytes)[me]}, {me, out}};
  co_await x.reduce(outputs, inputs.slices(), piece.combine);
}

Task<> collect(Exec& x, AllReduce piece, std::size_t at) {
  const Blocks from(x.ccl_out(at, piece.send.bytes), x.size(), piece.element_bytes);
  const Blocks to(piece.recv, x.size(), piece.element_bytes);
  for (const Rank peer : x.peers()) co_await x.copy_from(peer, to[peer], from[peer]);
}

/// Private memory: a two-shot exchange through the CCL buffers. Piece k+1 is published before the phase that
/// makes piece k's results visible, so that one phase serves both.
Task<> through_ccl_buffers(Exec& x, AllReduce op) {
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

/// Direct all_reduce on mapped memory: rank r combines share r of all inputs, in rank order (determinism D3).
/// Cost: 1 phase (zero copy), 2 (pulled), or 1 per piece of half a CCL buffer; 2(p-1)/p * bytes moved and
/// bytes reduced per rank. Streams: main. Scratch: none. Source: the reduce-scatter + all-gather composition
/// of Rabenseifner 2004, with loads and stores in place of messages.
Task<> all_reduce_direct(Exec& x, AllReduce op) {
  return x.reads_user_windows() ? from_user_windows(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double others = static_cast<double>(bytes) * (ranks - 1) / ranks;
  return {.rounds = 1, .bytes_moved = others, .bytes_reduced = others};
}

}  // namespace

const Algorithm<AllReduce> kAllReduceDirect = {
    .name = "direct",
    .ground = Ground::mapped,
    .cost = cost,
    .schedule = all_reduce_direct,
    .local = {.announces = Announces::windows, .combine = combine_own_share}};

}  // namespace cohort
