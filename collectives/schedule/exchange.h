// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exec.h>

namespace cohort {

inline Task<> send_slice(Link& link, Slice slice) { co_await link.send(slice); }
inline Task<> receive_slice(Link& link, Slice slice) { co_await link.recv(slice); }
inline Task<> receive_reduce_slice(Link& link, Slice slice, Reducer reducer) {
  co_await link.recv_reduce(slice, reducer);
}

/// Sends one slice and receives another at the same time, on two sub streams: full duplex, and no order in
/// which two peers could block. Awaited once.
[[nodiscard]] inline ForkJoin exchange(Exec& x, Link& to, Slice out, Link& from, Slice in) {
  return x.streams().fork_join(send_slice(to, out), receive_slice(from, in));
}

/// The same, combining what comes with what `in` holds.
[[nodiscard]] inline ForkJoin exchange_reduce(Exec& x, Link& to, Slice out, Link& from, Slice in,
                                              Reducer reducer) {
  return x.streams().fork_join(send_slice(to, out), receive_reduce_slice(from, in, reducer));
}

/// As exchange(), with one peer, as a task.
inline Task<> exchange_slices(Exec& x, Link& link, Slice out, Slice in) {
  co_await exchange(x, link, out, link, in);
}

}  // namespace cohort
