// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/membership.h>
#include <cohort/tests/support/learning_engine.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace cohort::test {

/// Rank of two processes on one host of so many cores, as it sees itself.
inline Membership member_of_two(Rank rank, std::size_t cores) {
  Membership membership;
  membership.size = 2;
  membership.rank = rank;
  for (Rank peer = 0; peer < 2; ++peer) {
    PeerInfo& info = membership.peers.emplace_back();
    info.rank = peer;
    info.process = info.visible_process = 100 + peer;
    info.incarnation = info.engine = 1 + peer;
    for (std::size_t core = 0; core < cores; ++core) info.cores.set(core);
  }
  return membership;
}

/// As they come out of a message.
inline std::vector<Descriptor> copies_of(const std::vector<int>& descriptors) {
  std::vector<Descriptor> copies;
  for (const int descriptor : descriptors) copies.emplace_back(::dup(descriptor));
  return copies;
}

/// For two ranks of a host, each with an engine of its own, both in this one thread.
class TwoEngines : public ::testing::Test {
 protected:
  LearningEngine engines_[2];
};

}  // namespace cohort::test
