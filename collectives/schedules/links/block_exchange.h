// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/maybe_empty.h>

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

/// The same of slices of which some may be empty.
template <class To, class From>
Task<> exchange_or_signal_at_once(Exec& x, To& to, From& from) {
  auto swap = [&](Rank peer) -> Task<> { return exchange_or_signal(x, x.link(peer), to(peer), from(peer)); };
  co_await x.fork_join(x.peers(), swap);
}

/// The same where everybody has one slice for all others.
template <class Share>
Task<> spread_or_signal(Exec& x, Share& share) {
  auto mine = [&](Rank) { return share(x.rank()); };
  co_await exchange_or_signal_at_once(x, mine, share);
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
