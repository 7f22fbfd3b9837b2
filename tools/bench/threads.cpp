// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/threads.h>

#include <algorithm>
#include <utility>

namespace cohort::bench {

std::vector<std::size_t> threads_of(const Membership& membership) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> known;
  std::vector<std::size_t> threads;
  for (const PeerInfo& peer : membership.peers) {
    const std::pair thread(peer.visible_process, peer.engine);
    const auto found = std::find(known.begin(), known.end(), thread);
    threads.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) known.push_back(thread);
  }
  return threads;
}

}  // namespace cohort::bench
