// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_group.h>

#include <cohort/net/transports.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/world_engine.h>

#include <gtest/gtest.h>

namespace cohort::testing {
namespace {

using Ends = std::array<std::unique_ptr<LinkEnd>, 2>;

Task<> make_end(Engine& engine, Rank rank, const LinkEnd::Choice& choice, Ends& ends) {
  std::unique_ptr<LinkEnd> end = co_await LinkEnd::make(engine, rank, choice);
  ends[rank] = std::move(end);
}

/// Runs body(ends) on two ranks of one process, whose links touch memory of the peer's.
template <class Body>
void run_pair(Body& body) {
  WorldEngine engine;
  const LinkEnd::Choice choice{.address = fresh_unix_address(), .kind = cohort::transports()[0]};
  auto whole = [&]() -> Task<> {
    Ends ends;
    co_await when_all(make_end(engine, 0, choice, ends), make_end(engine, 1, choice, ends));
    co_await body(ends);
    for (const auto& end : ends) co_await end->finish();
  };
  engine.run(whole());
}

TEST(HostGroup, a_link_that_touches_memory_leaves_its_schedules_guard_standing) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& group = *ends[1]->transports().group();
    const host::Counter& seen_by_peer = ends[0]->transports().group()->segment(1).access().touches;
    EXPECT_TRUE(group.begin_touching());
    co_await when_all(send(ends[0]->link(), in_send(kKiB)), recv(ends[1]->link(), in_recv(kKiB)));
    EXPECT_EQ(seen_by_peer.load(), 1U) << "the schedule still touches what the peer may free now";
    group.end_touching();
    EXPECT_EQ(seen_by_peer.load(), 0U);
  };
  run_pair(body);
}

TEST(HostGroup, memory_that_is_withdrawn_may_be_touched_only_by_who_began_before) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& group = *ends[1]->transports().group();
    const host::Counter& touches = group.own().access().touches;
    EXPECT_TRUE(group.begin_touching());
    ends[0]->transports().group()->own().access().withdrawn.store(1);
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

TEST(HostGroup, who_waits_until_a_peer_touches_its_memory_no_more_leaves_the_engine_to_others) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& touching = *ends[1]->transports().group();
    host::HostGroup& withdrawing = *ends[0]->transports().group();
    EXPECT_TRUE(touching.begin_touching());
    bool has_ended = false;
    auto go_on = [&]() -> Task<> {
      for (int i = 0; i < 10; ++i) co_await ends[1]->engine().sleep_for(std::chrono::milliseconds(1));
      touching.end_touching();
      has_ended = true;
    };
    auto withdraw = [&]() -> Task<> {
      const auto is_dead = [](Rank) { return false; };
      co_await withdrawing.withdraw(is_dead);
      EXPECT_TRUE(has_ended) << "the peer may still read what is freed now";
    };
    co_await when_all(withdraw(), go_on());
  };
  run_pair(body);
}

TEST(HostGroup, nobody_waits_for_a_rank_that_died_while_it_touched_memory) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& dead = *ends[1]->transports().group();
    EXPECT_TRUE(dead.begin_touching());
    const TimePoint start = ends[0]->engine().now();
    const auto is_dead = [](Rank rank) { return rank == 1; };
    co_await ends[0]->transports().group()->withdraw(is_dead);
    EXPECT_EQ(ends[0]->engine().now(), start);
    dead.end_touching();
  };
  run_pair(body);
}

class ProbedWatcher final : public host::Watcher {
 public:
  ~ProbedWatcher() { unlink(); }
  bool poll() noexcept override {
    ++polls;
    if (ends != nullptr) ends->unlink();
    return false;
  }
  int polls = 0;
  ProbedWatcher* ends = nullptr;
};

TEST(HostGroup, one_that_is_polled_may_end_what_others_wait_for) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& group = *ends[0]->transports().group();
    std::array<ProbedWatcher, 3> watchers;
    for (ProbedWatcher& watcher : watchers) group.watch(watcher);
    watchers[0].ends = &watchers[1];
    group.poll();
    EXPECT_EQ(watchers[1].polls, 0);
    EXPECT_EQ(watchers[2].polls, 1);
    co_return;
  };
  run_pair(body);
}

}  // namespace
}  // namespace cohort::testing
