// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {

Task<> send_slice(Link& link, Slice slice) { co_await link.send(slice); }
Task<> receive_slice(Link& link, Slice slice) { co_await link.recv(slice); }
Task<> receive_reduce_slice(Link& link, Slice slice, Reducer reducer) {
  co_await link.recv_reduce(slice, reducer);
}

ForkJoin exchange(Exec& x, Link& to, Slice out, Link& from, Slice in) {
  return x.streams().fork_join(send_slice(to, out), receive_slice(from, in));
}

ForkJoin exchange_reduce(Exec& x, Link& to, Slice out, Link& from, Slice in, Reducer reducer) {
  return x.streams().fork_join(send_slice(to, out), receive_reduce_slice(from, in, reducer));
}

Task<> exchange_slices(Exec& x, Link& link, Slice out, Slice in) {
  co_await exchange(x, link, out, link, in);
}

}  // namespace cohort
