// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/memory/staged_shares.h>

#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/placed.h>

namespace cohort {

Task<> publish_shares(Exec& x, AllReduce piece, std::size_t at) {
  const Blocks from(piece.send, x.size(), piece.element_bytes);
  const Blocks to(x.ccl_in(at, piece.send.bytes), x.size(), piece.element_bytes);
  for (const Rank peer : x.peers()) co_await x.copy(to[peer], from[peer]);
}

Task<> combine_published(Exec& x, AllReduce piece, std::size_t at, Wanted wanted) {
  const Rank me = x.rank();
  const auto my_share = [&](const Slice& of) { return Blocks(of, x.size(), piece.element_bytes)[me]; };
  Placed inputs(x, my_share(x.ccl_in(at, piece.send.bytes)));
  inputs.replace(me, my_share(piece.send));
  const PlacedSlice places[] = {{me, my_share(piece.recv)}, {me, my_share(x.ccl_out(at, piece.send.bytes))}};
  const std::size_t first = wanted == Wanted::elsewhere ? 1 : 0;
  const std::size_t count = wanted == Wanted::everywhere ? 2 : 1;
  co_await x.reduce(std::span(places).subspan(first, count), inputs.slices(), piece.combine);
}

Task<> collect_shares(Exec& x, AllReduce piece, std::size_t at) {
  const Blocks from(x.ccl_out(at, piece.send.bytes), x.size(), piece.element_bytes);
  const Blocks to(piece.recv, x.size(), piece.element_bytes);
  for (const Rank peer : x.peers()) co_await x.copy_from(peer, to[peer], from[peer]);
}

Task<> reduce_through_ccl_buffers(Exec& x, AllReduce op, Wanted wanted) {
  const Staging staging(x, op.send.bytes, op.element_bytes);
  auto piece = [&](std::size_t k) { return op.part(staging.offset(k), staging.bytes(k)); };
  if (staging.pieces() > 0) co_await publish_shares(x, piece(0), staging.place(0));
  co_await x.phase();
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    co_await combine_published(x, piece(k), staging.place(k), wanted);
    if (k + 1 < staging.pieces()) co_await publish_shares(x, piece(k + 1), staging.place(k + 1));
    co_await x.phase();
    if (wanted != Wanted::elsewhere) co_await collect_shares(x, piece(k), staging.place(k));
  }
}

}  // namespace cohort
