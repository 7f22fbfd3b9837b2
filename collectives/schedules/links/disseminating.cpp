// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/disseminating.h>

namespace cohort {

Task<> send_both(Link& link, Slice first, Slice second) {
  co_await link.send(first);
  if (!second.empty()) co_await link.send(second);
}

Task<> receive_both(Link& link, Slice first, Slice second) {
  co_await link.recv(first);
  if (!second.empty()) co_await link.recv(second);
}

Task<> receive_reduce_both(Link& link, Slice first, Slice second, Reducer reducer) {
  co_await link.recv_reduce(first, reducer);
  if (!second.empty()) co_await link.recv_reduce(second, reducer);
}

Task<> Disseminating::all_gather() {
  for (const Dissemination::Round& round : rule_.rounds()) {
    const Dissemination::Runs out = rule_.sent(round);
    const Dissemination::Runs in = rule_.received(round);
    co_await x_.streams().fork_join(send_both(further(round), places(out.first), places(out.second)),
                                    receive_both(nearer(round), places(in.first), places(in.second)));
  }
}

Task<> Disseminating::reduce_scatter(Reducer reducer) {
  for (Rank i = rule_.round_count(); i-- > 0;) {
    const Dissemination::Round& round = rule_.round(i);
    const Dissemination::Runs out = rule_.received(round);
    const Dissemination::Runs in = rule_.sent(round);
    co_await x_.streams().fork_join(
        send_both(nearer(round), places(out.first), places(out.second)),
        receive_reduce_both(further(round), places(in.first), places(in.second), reducer));
  }
}

Task<> Disseminating::gather(Rank root) {
  const Rank way = way_to(root);
  for (const Dissemination::Round& round : rule_.rounds()) {
    if (rule_.has_left(round, way)) co_return;
    if ((way & round.distance) != 0) {
      const Dissemination::Runs out = rule_.sent(round, way);
      co_await send_both(further(round), places(out.first), places(out.second));
    } else if (way + round.distance < x_.size()) {
      const Dissemination::Runs in = rule_.received(round, way + round.distance);
      co_await receive_both(nearer(round), places(in.first), places(in.second));
    }
  }
}

Task<> Disseminating::scatter(Rank root) {
  const Rank way = way_to(root);
  for (Rank i = rule_.round_count(); i-- > 0;) {
    const Dissemination::Round& round = rule_.round(i);
    if (rule_.has_left(round, way)) continue;
    if ((way & round.distance) != 0) {
      const Dissemination::Runs in = rule_.sent(round, way);
      co_await receive_both(further(round), places(in.first), places(in.second));
    } else if (way + round.distance < x_.size()) {
      const Dissemination::Runs out = rule_.received(round, way + round.distance);
      co_await send_both(nearer(round), places(out.first), places(out.second));
    }
  }
}

Task<> Disseminating::copy_at_once(std::size_t bytes) {
  const Slice all = x_.scratch(0, bytes);
  co_await x_.copy(all, all);
}

}  // namespace cohort
