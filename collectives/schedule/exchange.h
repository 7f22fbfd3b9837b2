// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exec.h>

namespace cohort {

inline Task<> send_slice(Link& link, Slice slice) { co_await link.send(slice); }
inline Task<> receive_slice(Link& link, Slice slice) { co_await link.recv(slice); }
inline Task<> receive_reduce_slice(Link& link, Slice slice, Reducer reducer) {
  co_await link.recv_reduce(slice, reducer);
}

/// Sends one slice and receives another at the same time: full duplex, and no order in which two peers could
/// block.
inline Task<> exchange(Link& to, Slice out, Link& from, Slice in) {
  co_await when_all(send_slice(to, out), receive_slice(from, in));
}

/// The same, combining what comes with what `in` holds.
inline Task<> exchange_reduce(Link& to, Slice out, Link& from, Slice in, Reducer reducer) {
  co_await when_all(send_slice(to, out), receive_reduce_slice(from, in, reducer));
}

}  // namespace cohort
