// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/threads.h>

#include <gmock/gmock.h>

namespace cohort::bench::threads_test {
namespace {

PeerInfo peer(std::uint32_t process, std::uint64_t engine) {
  PeerInfo info;
  info.visible_process = process;
  info.engine = engine;
  return info;
}

TEST(Threads, are_numbered_by_their_first_rank) {
  Membership membership;
  membership.peers = {peer(7, 2), peer(7, 1), peer(8, 1), peer(7, 2), peer(8, 1)};
  EXPECT_THAT(threads_of(membership), ::testing::ElementsAre(0, 1, 2, 0, 2));
}

}  // namespace
}  // namespace cohort::bench::threads_test
