// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exchange.h>

namespace cohort {

// Every rank gives each other one a slice, to(r), and gets one of it, from(r). All of them outlive the tasks.

/// With all peers at once: 1 round. Streams: p-1, and two for each.
template <class To, class From>
Task<> exchange_at_once(Exec& x, To& to, From& from) {
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await exchange(x, link, to(peer), link, from(peer));
  };
  co_await x.fork_join(x.peers(), swap);
}

/// In step t with those t ahead and t behind, so that nobody gets from two at once: p-1 rounds. Streams: two.
template <class To, class From>
Task<> exchange_in_turn(Exec& x, To& to, From& from) {
  for (Rank distance = 1; distance < x.size(); ++distance) {
    const Rank ahead = x.ahead(distance);
    const Rank behind = x.behind(distance);
    co_await exchange(x, x.link(ahead), to(ahead), x.link(behind), from(behind));
  }
}

}  // namespace cohort
