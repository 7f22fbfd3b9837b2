// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedule/exec.h>

namespace cohort {

Exec::Exec(Rank rank, Rank size, StreamWatcher* watcher)
    : rank_(rank), size_(size), announced_(size, {0, {WindowId::slot, 0, 0}}), streams_(watcher) {}

Task<> Exec::perform_rest(LocalStep& step) {
  perform(step);
  co_return;
}

void Exec::list_peers() const {
  for (Rank distance = 1; distance < size_; ++distance) peers_.push_back(ahead(distance));
}

}  // namespace cohort
