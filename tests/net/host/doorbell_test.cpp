// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/doorbell.h>

#include <cohort/tests/support/learning_engine.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace cohort::test::doorbell_test {
namespace {

using namespace std::chrono_literals;

class Doorbell : public ::testing::Test {
 protected:
  Doorbell() { ::unsetenv("COHORT_SPIN_US"); }

  void ring() { bell_.ring_if_asleep(engine_.clock()); }

  LearningEngine engine_;
  host::DoorbellWords words_;
  host::DoorbellListener listener_{engine_, words_};
  host::Doorbell bell_{words_, Descriptor()};
  const CallUnderWay call_{engine_};
};

TEST_F(Doorbell, tells_its_owner_how_long_the_wake_took) {
  listener_.fall_asleep();
  ring();
  engine_.pass(150us);
  ring();  // the first one woke it
  engine_.pass(150us);
  listener_.wake_up();
  EXPECT_GE(engine_.spin_time(), 600us);
  EXPECT_LE(engine_.spin_time(), 620us);
}

TEST_F(Doorbell, tells_nothing_of_a_sleep_in_which_nobody_rang) {
  listener_.fall_asleep();
  ring();
  listener_.wake_up();
  const Duration before = engine_.spin_time();
  engine_.pass(300us);
  ring();
  listener_.fall_asleep();
  engine_.pass(300us);
  listener_.wake_up();
  EXPECT_EQ(engine_.spin_time(), before);
}

TEST_F(Doorbell, does_not_believe_in_a_time_that_is_none) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t time : {Limits::min(), std::int64_t{-1}, Limits::max()}) {
    listener_.fall_asleep();
    words_.rung_at = time;
    listener_.wake_up();
    EXPECT_EQ(engine_.spin_time(), SpinBudget::kLeast);
  }
}

}  // namespace
}  // namespace cohort::test::doorbell_test
