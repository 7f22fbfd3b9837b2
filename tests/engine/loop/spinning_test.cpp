// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/engine.h>

#include <cohort/engine/loop/yield_budget.h>
#include <cohort/tests/support/learning_engine.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

namespace cohort::test::spinning_test {
namespace {

using namespace std::chrono_literals;

/// An engine reads the clock in every 16th idle turn, and for what goes on around a wait.
constexpr Duration kSlack = 40us;

/// How long it is awake while nothing happens to it.
Duration awake_during(LearningEngine& engine, Duration wait) {
  const Duration before = engine.awake();
  auto body = [&]() -> Task<> { co_await engine.sleep_for(wait); };
  engine.run(body());
  return engine.awake() - before;
}

class Spinning : public ::testing::Test {
 protected:
  Spinning() {
    ::unsetenv("COHORT_SPIN_US");
    YieldBudget::of_this_thread() = {};
    YieldBudget::expect_ranks_apart(false);
  }
  LearningEngine engine_;
};

TEST_F(Spinning, lasts_as_long_as_wakes_have_shown_to_pay_during_a_call_and_not_beyond) {
  {
    const CallUnderWay call(engine_);
    engine_.note_wake(engine_.now() - 200us);
    EXPECT_GE(engine_.spin_time(), 400us);
    const Duration awake = awake_during(engine_, 1s);
    EXPECT_GE(awake, 400us);
    EXPECT_LE(awake, engine_.spin_time() + kSlack);
  }
  EXPECT_EQ(engine_.spin_time(), SpinBudget::kLeast);
  const Duration awake = awake_during(engine_, 1s);
  EXPECT_GE(awake, SpinBudget::kLeast);
  EXPECT_LE(awake, SpinBudget::kLeast + kSlack) << "an idle job uses a core";
}

TEST_F(Spinning, learns_nothing_from_wakes_outside_of_calls_or_where_engines_take_turns) {
  engine_.note_wake(engine_.now() - 200us);
  const CallUnderWay call(engine_);
  EXPECT_EQ(engine_.spin_time(), SpinBudget::kLeast);
  engine_.set_oversubscribed(true);
  engine_.note_wake(engine_.now() - 200us);
  EXPECT_EQ(engine_.spin_time(), SpinBudget::kLeast);
  engine_.set_oversubscribed(false);
  EXPECT_EQ(engine_.spin_time(), SpinBudget::kLeast);
}

TEST_F(Spinning, covers_the_next_wait_for_an_answer_like_one_that_ended_in_a_sleep) {
  const CallUnderWay call(engine_);
  constexpr Duration kAnswer = 300us;
  auto body = [&]() -> Task<> {
    co_await engine_.sleep_for(kAnswer);
    engine_.note_answer();
  };
  engine_.run(body());
  EXPECT_EQ(engine_.virtual_driver().sleeps(), 1U);
  EXPECT_GE(engine_.spin_time(), kAnswer - kSlack);
  EXPECT_LE(engine_.spin_time(), kAnswer + kSlack);
  auto next = [&]() -> Task<> { co_await engine_.sleep_for(kAnswer - 2 * kSlack); };
  engine_.run(next());
  EXPECT_EQ(engine_.virtual_driver().sleeps(), 1U) << "it slept where spinning pays";
}

/// Only what peers bring tells how long they take.
TEST_F(Spinning, is_not_longer_for_a_timer_nor_for_an_answer_that_came_without_a_sleep) {
  const CallUnderWay call(engine_);
  auto timer = [&]() -> Task<> {
    co_await engine_.sleep_for(300us);
    co_await engine_.sleep_for(20us);
    engine_.note_answer();
  };
  engine_.run(timer());
  EXPECT_EQ(engine_.virtual_driver().sleeps(), 1U);
  EXPECT_EQ(engine_.spin_time(), SpinBudget::kLeast);
}

TEST_F(Spinning, lasts_as_long_as_it_was_set_to) {
  ::setenv("COHORT_SPIN_US", "80", 1);
  LearningEngine engine;
  ::unsetenv("COHORT_SPIN_US");
  const CallUnderWay call(engine);
  engine.note_wake(engine.now() - 400us);
  EXPECT_EQ(engine.spin_time(), Duration(80us));
  const Duration awake = awake_during(engine, 1s);
  EXPECT_GE(awake, 80us);
  EXPECT_LE(awake, 80us + kSlack);
}

TEST_F(Spinning, on_shared_cores_yields_to_ranks_apart_until_that_has_not_paid_for_a_few_waits) {
  engine_.set_oversubscribed(true);
  YieldBudget::expect_ranks_apart();
  const CallUnderWay call(engine_);
  for (unsigned i = 0; i < YieldBudget::kMostFailures; ++i)
    EXPECT_GE(awake_during(engine_, 1s), SpinBudget::kLeast);
  const std::size_t yielded = engine_.host().yielded;
  EXPECT_GT(yielded, 0U);
  for (unsigned i = 0; i < YieldBudget::kFirstRest; ++i) EXPECT_LE(awake_during(engine_, 1s), 20us);
  EXPECT_EQ(engine_.host().yielded, yielded);
  EXPECT_GE(awake_during(engine_, 1s), SpinBudget::kLeast) << "ranks may wait for less by now";
  EXPECT_GT(engine_.host().yielded, yielded);
  EXPECT_FALSE(YieldBudget::of_this_thread().pays());
}

TEST_F(Spinning, on_shared_cores_yields_for_as_long_as_was_set) {
  YieldBudget::expect_ranks_apart();
  LearningEngine engine(100us);
  engine.set_oversubscribed(true);
  const CallUnderWay call(engine);
  for (int i = 0; i < 20; ++i) EXPECT_GE(awake_during(engine, 1s), 100us);
}

TEST_F(Spinning, without_a_call_learns_nothing_from_yields) {
  YieldBudget::expect_ranks_apart();
  engine_.set_oversubscribed(true);
  for (int i = 0; i < 20; ++i) EXPECT_GE(awake_during(engine_, 1s), SpinBudget::kLeast);
  EXPECT_TRUE(YieldBudget::of_this_thread().pays());
}

/// A peer that runs, or would like to, where the test says.
class BesidePeer : public Spinning {
 protected:
  void put_peer_on(int core) { peer_ = core + 1; }

  CoreWord own_{0};
  CoreWord peer_{0};
  std::optional<CoreGroup> group_{std::in_place, engine_.core_peers().groups(), own_,
                                  std::vector<const CoreWord*>{&peer_}};
};

TEST_F(BesidePeer, an_idle_engine_gives_it_the_core_that_they_share) {
  const CallUnderWay call(engine_);
  put_peer_on(2);
  engine_.host().core = 2;
  awake_during(engine_, 1s);
  EXPECT_GT(engine_.host().handed_over, 10U);
  EXPECT_EQ(engine_.host().yielded, 0U);
  EXPECT_EQ(own_, 3);
}

TEST_F(BesidePeer, an_engine_that_has_a_core_of_its_own_keeps_it) {
  put_peer_on(1);
  engine_.host().core = 2;
  awake_during(engine_, 1s);
  EXPECT_TRUE(engine_.may_spin_on());
  EXPECT_EQ(engine_.host().handed_over, 0U);
  put_peer_on(2);
  EXPECT_TRUE(engine_.may_spin_on());
  EXPECT_EQ(engine_.host().handed_over, 1U);
}

/// To yield to such a program costs its slice of time each time; who sleeps is back when it is woken.
TEST_F(BesidePeer, an_engine_sleeps_at_once_where_a_busy_program_takes_the_core_instead) {
  const CallUnderWay call(engine_);
  put_peer_on(0);
  engine_.host().away = 3ms;
  EXPECT_TRUE(engine_.may_spin_on());
  EXPECT_FALSE(engine_.may_spin_on());
  EXPECT_LE(awake_during(engine_, 10ms), 10us);
  EXPECT_EQ(engine_.host().handed_over, 1U);
  engine_.pass(CorePeers::kTakenFor);
  EXPECT_TRUE(engine_.may_spin_on()) << "the program may have gone";
  put_peer_on(1);
  EXPECT_TRUE(engine_.may_spin_on()) << "nobody waits here";
}

TEST_F(BesidePeer, an_engine_spins_for_as_long_as_was_set_whoever_takes_the_core) {
  LearningEngine engine(100us);
  const CoreGroup group(engine.core_peers().groups(), own_, {&peer_});
  put_peer_on(0);
  engine.host().away = 3ms;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine.may_spin_on());
  const CallUnderWay call(engine);
  const Duration awake = awake_during(engine, 1s);
  EXPECT_GE(awake, 100us);
  EXPECT_EQ(engine.host().handed_over, 0U);
}

/// Its timers would be late by a slice of whoever gets it.
TEST_F(BesidePeer, an_engine_without_a_call_keeps_the_core_and_sleeps_soon) {
  put_peer_on(0);
  engine_.host().away = 3ms;
  EXPECT_LE(awake_during(engine_, 1s), SpinBudget::kLeast + kSlack);
  EXPECT_EQ(engine_.host().handed_over, 0U);
}

/// It may have been moved meanwhile: peers on its former core would give that away for nothing.
TEST_F(BesidePeer, an_engine_that_wakes_says_where_it_is_now) {
  auto body = [&]() -> Task<> {
    co_await engine_.sleep_for(1s);
    EXPECT_EQ(own_, 2);
  };
  Task<> waiting = body();
  engine_.host().core = 0;
  EXPECT_TRUE(engine_.may_spin_on());
  EXPECT_EQ(own_, 1);
  engine_.host().core = 1;
  engine_.run(std::move(waiting));
}

TEST_F(BesidePeer, an_engine_without_peers_asks_nothing) {
  group_.reset();
  awake_during(engine_, 1s);
  EXPECT_EQ(engine_.host().asked, 0U);
}

}  // namespace
}  // namespace cohort::test::spinning_test
