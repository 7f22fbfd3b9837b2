// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {

// For blocks of which some may be empty, where others are not. On shared memory nobody meets for an empty
// message: the sender would not be heard of, and the receiver, which waits for nothing, would run ahead of
// those that do. A signal goes in its place.

inline Task<> send_or_post(Link& link, Slice slice) {
  if (slice.empty())
    co_await link.post(Signal::DataSignal);
  else
    co_await link.send(slice);
}

inline Task<> receive_or_wait(Link& link, Slice slice) {
  if (slice.empty())
    co_await link.wait(Signal::DataSignal);
  else
    co_await link.recv(slice);
}

/// Of a block for a root, or a root's: where all hear of each other (is_joint) signals go between them
/// besides, of which none may come before the last one is taken.
[[nodiscard]] inline Task<> give_block(Link& link, Slice block, bool joint) {
  return joint ? send_or_post(link, block) : send_slice(link, block);
}
[[nodiscard]] inline Task<> take_block(Link& link, Slice block, bool joint) {
  return joint ? receive_or_wait(link, block) : receive_slice(link, block);
}

/// With one peer, both ways at the same time.
inline Task<> exchange_or_signal(Exec& x, Link& link, Slice out, Slice in) {
  co_await x.streams().fork_join(send_or_post(link, out), receive_or_wait(link, in));
}

}  // namespace cohort
