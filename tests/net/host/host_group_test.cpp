// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_group.h>

#include <cohort/net/host/touch.h>
#include <cohort/net/transport_list.h>
#include <cohort/tests/net/host/two_engines.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/world_engine.h>

#include <gtest/gtest.h>

namespace cohort::test::host_group_test {
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

host::HostGroup& group_of(Ends& ends, Rank rank) { return *ends[rank]->transports().group(); }

/// As that rank's memory is while and after it withdraws it.
void withdraw_from(Ends& ends, Rank rank) { group_of(ends, rank).own().access().withdrawn.store(1); }

TEST(HostGroup, a_link_that_touches_memory_leaves_its_schedules_touch_standing) {
  auto body = [](Ends& ends) -> Task<> {
    const host::Counter& seen_by_peer = group_of(ends, 0).segment(1).access().touches;
    host::Touch touch;
    EXPECT_TRUE(touch.begin(group_of(ends, 1)));
    co_await when_all(send(ends[0]->link(), in_send(kKiB)), recv(ends[1]->link(), in_recv(kKiB)));
    EXPECT_EQ(seen_by_peer.load(), 1U) << "the schedule still touches what the peer may free now";
    EXPECT_TRUE(touch.end());
    EXPECT_EQ(seen_by_peer.load(), 0U);
  };
  run_pair(body);
}

TEST(HostGroup, memory_that_is_withdrawn_is_no_longer_touched_within_a_touch_either) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& group = group_of(ends, 1);
    const host::Counter& touches = group.own().access().touches;
    host::Touch around;
    EXPECT_TRUE(around.begin(group));
    withdraw_from(ends, 0);
    EXPECT_FALSE(around.may_go_on());
    host::Touch within;
    EXPECT_FALSE(within.begin(group)) << "the peer waits for the touch around it only so long";
    EXPECT_EQ(touches.load(), 1U);
    EXPECT_FALSE(around.end()) << "what was read may be torn";
    EXPECT_EQ(touches.load(), 0U);
    EXPECT_FALSE(within.begin(group));
    EXPECT_EQ(touches.load(), 0U);
    co_return;
  };
  run_pair(body);
}

TEST(HostGroup, a_touch_of_one_ranks_memory_does_not_mind_what_others_withdraw) {
  auto body = [](Ends& ends) -> Task<> {
    host::HostGroup& group = group_of(ends, 1);
    host::Touch of_peer;
    host::Touch of_own;
    EXPECT_TRUE(of_peer.begin(group, 0));
    EXPECT_TRUE(of_own.begin(group, 1));
    withdraw_from(ends, 0);
    EXPECT_TRUE(of_own.may_go_on());
    EXPECT_TRUE(of_own.end());
    EXPECT_FALSE(of_peer.end());
    co_return;
  };
  run_pair(body);
}

TEST(HostGroup, a_touch_that_ended_before_its_memory_was_withdrawn_ended_well) {
  auto body = [](Ends& ends) -> Task<> {
    host::Touch touch;
    EXPECT_TRUE(touch.begin(group_of(ends, 1)));
    EXPECT_TRUE(touch.end());
    withdraw_from(ends, 0);
    EXPECT_FALSE(touch.begin(group_of(ends, 1)));
    co_return;
  };
  run_pair(body);
}

TEST(HostGroup, who_waits_until_a_peer_touches_its_memory_no_more_leaves_the_engine_to_others) {
  auto body = [](Ends& ends) -> Task<> {
    host::Touch touch;
    EXPECT_TRUE(touch.begin(group_of(ends, 1)));
    bool has_ended = false;
    auto go_on = [&]() -> Task<> {
      for (int i = 0; i < 10; ++i) co_await ends[1]->engine().sleep_for(std::chrono::milliseconds(1));
      (void)touch.end();
      has_ended = true;
    };
    auto withdraw = [&]() -> Task<> {
      const auto is_dead = [](Rank) { return false; };
      co_await group_of(ends, 0).withdraw(is_dead);
      EXPECT_TRUE(has_ended) << "the peer may still read what is freed now";
    };
    co_await when_all(withdraw(), go_on());
  };
  run_pair(body);
}

TEST(HostGroup, nobody_waits_for_a_rank_that_died_while_it_touched_memory) {
  auto body = [](Ends& ends) -> Task<> {
    host::Touch touch_of_dead;
    EXPECT_TRUE(touch_of_dead.begin(group_of(ends, 1)));
    const TimePoint start = ends[0]->engine().now();
    const auto is_dead = [](Rank rank) { return rank == 1; };
    co_await group_of(ends, 0).withdraw(is_dead);
    EXPECT_EQ(ends[0]->engine().now(), start);
  };
  run_pair(body);
}

TEST(HostGroup, a_rank_that_is_stopped_amid_a_touch_is_given_up_and_finds_that_when_it_ends) {
  auto body = [](Ends& ends) -> Task<> {
    host::Touch touch;
    EXPECT_TRUE(touch.begin(group_of(ends, 1)));
    const TimePoint start = ends[0]->engine().now();
    const auto is_dead = [](Rank) { return false; };
    co_await group_of(ends, 0).withdraw(is_dead);
    EXPECT_GE(ends[0]->engine().now() - start, std::chrono::seconds(5));
    EXPECT_FALSE(touch.end());
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
    host::HostGroup& group = group_of(ends, 0);
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

/// Of ranks on engines, which both run where the test says.
class SpinningGroups : public TwoEngines {
 protected:
  SpinningGroups() {
    for (Rank rank = 0; rank < 2; ++rank)
      groups_.push_back(std::make_unique<host::HostGroup>(engines_[rank], members_[rank], kBoth,
                                                          std::size_t{1} << 20, std::size_t{1} << 20, true));
    groups_[1]->adopt(0, copies_of(groups_[0]->descriptors_for_peers()));
    groups_[0]->adopt(1, copies_of(groups_[1]->descriptors_for_peers()));
  }
  void run_on(int first, int second) {
    engines_[0].host().core = first;
    engines_[1].host().core = second;
    EXPECT_TRUE(engines_[1].may_spin_on());
  }
  /// How often the first rank gives its core away while it waits for an arrival that does not come.
  [[nodiscard]] std::size_t hand_overs() {
    const std::size_t before = engines_[0].host().handed_over;
    EXPECT_FALSE(groups_[0]->spin_for_arrival(1, 1));
    return engines_[0].host().handed_over - before;
  }

  static constexpr std::array<Rank, 2> kBoth = {0, 1};
  const std::array<Membership, 2> members_ = {member_of_two(0, 2), member_of_two(1, 2)};
  std::vector<std::unique_ptr<host::HostGroup>> groups_;
};

TEST_F(SpinningGroups, give_the_core_to_the_rank_that_they_wait_for) {
  run_on(1, 0);
  EXPECT_EQ(hand_overs(), 0U);
  run_on(1, 1);
  EXPECT_GT(hand_overs(), 10U);
  groups_[1]->announce(1);
  EXPECT_TRUE(groups_[0]->spin_for_arrival(1, 1));
}

TEST_F(SpinningGroups, stop_at_once_where_a_busy_program_takes_the_core_instead) {
  run_on(1, 1);
  engines_[0].host().away = std::chrono::milliseconds(3);
  EXPECT_EQ(hand_overs(), 1U);
  EXPECT_EQ(hand_overs(), 0U);
}

}  // namespace
}  // namespace cohort::test::host_group_test
