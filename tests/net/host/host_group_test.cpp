// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_group.h>

#include <cohort/net/transports.h>
#include <cohort/tests/net/link_pair.h>

#include <gtest/gtest.h>

namespace cohort::testing {
namespace {

/// Runs body(pair) on two ranks of one process, whose links touch memory of the peer's.
template <class Body>
void run_pair(Body& body) {
  Engine engine;
  auto whole = [&]() -> Task<> {
    const std::unique_ptr<LinkPair> pair = co_await LinkPair::make(engine, cohort::transports()[0], false);
    co_await body(*pair);
    co_await pair->finish();
  };
  engine.run(whole());
}

TEST(HostGroup, a_link_that_touches_memory_leaves_its_schedules_guard_standing) {
  auto body = [](LinkPair& pair) -> Task<> {
    host::HostGroup& group = *pair.transports(1).group();
    const host::Counter& seen_by_peer = pair.transports(0).group()->segment(1).access().touches;
    EXPECT_TRUE(group.begin_touching());
    co_await when_all(send(pair.link(0), in_send(kKiB)), recv(pair.link(1), in_recv(kKiB)));
    EXPECT_EQ(seen_by_peer.load(), 1U) << "the schedule still touches what the peer may free now";
    group.end_touching();
    EXPECT_EQ(seen_by_peer.load(), 0U);
  };
  run_pair(body);
}

TEST(HostGroup, memory_that_is_withdrawn_may_be_touched_only_by_who_began_before) {
  auto body = [](LinkPair& pair) -> Task<> {
    host::HostGroup& group = *pair.transports(1).group();
    const host::Counter& touches = group.own().access().touches;
    EXPECT_TRUE(group.begin_touching());
    pair.transports(0).group()->own().access().withdrawn.store(1);
    EXPECT_TRUE(group.begin_touching()) << "the guard around it makes the peer wait";
    group.end_touching();
    EXPECT_EQ(touches.load(), 1U);
    group.end_touching();
    EXPECT_FALSE(group.begin_touching());
    EXPECT_EQ(touches.load(), 0U);
    co_return;
  };
  run_pair(body);
}

}  // namespace
}  // namespace cohort::testing
