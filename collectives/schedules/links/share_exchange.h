// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/links/collected.h>
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {

/// One phase of a mesh reduction: every rank sends each peer that peer's share and combines all contributions
/// to its own, in rank order. `share(r)` is rank r's share of the input; the result goes to `result`.
///
/// With two ranks the one contribution is combined as it arrives (both orders of two operands give the same
/// bits); with more, they are collected in scratch, (p-1) * share bytes, and combined in one pass.
template <class Share>
Task<> exchange_shares(Exec& x, Share& share, Slice result, Combine combine) {
  const Slice own = share(x.rank());
  if (x.size() == 2) {
    const Rank peer = x.ahead(1);
    Link& link = x.link(peer);
    if (!(result == own)) co_await x.copy(result, own);
    co_await exchange_reduce(x, link, share(peer), link, result, x.last_reducer(combine));
    co_return;
  }
  Collected inputs(x, own);
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await exchange(x, link, share(peer), link, inputs.from(peer));
  };
  co_await x.fork_join(x.peers(), swap);
  co_await inputs.combine_into(result, combine);
}

/// One phase of a mesh all_gather: every rank's share(r), which lies in its place, to all others, over that
/// lane.
template <class Share>
Task<> spread_shares(Exec& x, Share& share, Lane lane = 0) {
  const Slice mine = share(x.rank());
  auto swap = [&](Rank peer) -> Task<> { return exchange_slices(x, x.link(peer, lane), mine, share(peer)); };
  co_await x.fork_join(x.peers(), swap);
}

/// What either of these comes to, for shares of so many bytes; the reduction combines what moves.
[[nodiscard]] inline Cost cost_of_shares(double share_bytes, Rank ranks) noexcept {
  if (ranks == 1) return {};
  const double moved = share_bytes * (ranks - 1);
  return {
      .rounds = 1, .bytes_moved = moved, .messages = ranks * (ranks - 1.0), .bytes_by_all = moved * ranks};
}

}  // namespace cohort
