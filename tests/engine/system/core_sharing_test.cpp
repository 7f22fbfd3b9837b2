// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/core_sharing.h>

#include <gtest/gtest.h>

namespace cohort::core_sharing_test {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBegin{std::chrono::hours(1)};

TEST(CoreSharing, yields_among_ranks_that_give_the_core_back) {
  CoreSharing sharing;
  EXPECT_FALSE(sharing.should_sleep(kBegin));
  sharing.note_yield(kBegin, kBegin + std::chrono::microseconds(300));
  EXPECT_FALSE(sharing.should_sleep(kBegin + std::chrono::microseconds(301)));
}

/// Every yield would cost two looks at the clock.
TEST(CoreSharing, times_few_yields_until_one_is_long) {
  CoreSharing sharing;
  unsigned timed = 0;
  for (unsigned i = 0; i < 10 * CoreSharing::kYieldsPerSample; ++i) timed += sharing.should_time() ? 1 : 0;
  EXPECT_EQ(timed, 10);
  sharing.note_yield(kBegin, kBegin + CoreSharing::kLongYield);
  EXPECT_TRUE(sharing.should_time());
  EXPECT_TRUE(sharing.should_time()) << "until it is forgotten";
  const TimePoint later = kBegin + 10 * CoreSharing::kLongYield;
  sharing.note_yield(later, later + std::chrono::microseconds(1));
  EXPECT_FALSE(sharing.should_time());
}

class LongYields : public ::testing::Test {
 protected:
  void yield(Duration lasting) {
    sharing_.note_yield(now_, now_ + lasting);
    now_ += lasting;
  }
  [[nodiscard]] bool sleeps() const { return sharing_.should_sleep(now_); }

  CoreSharing sharing_;
  TimePoint now_ = kBegin;
};

TEST_F(LongYields, sleeps_for_a_while_beside_a_program_that_keeps_the_core) {
  for (int i = 0; i < 20 && !sleeps(); ++i) {
    yield(4ms);
    if (!sleeps()) yield(100us);
  }
  EXPECT_TRUE(sleeps());
  EXPECT_LT(now_ - kBegin, 40ms);
  now_ += CoreSharing::kSleepsFor / 2;
  EXPECT_TRUE(sleeps());
  now_ += CoreSharing::kSleepsFor / 2;
  EXPECT_FALSE(sleeps()) << "it never tries again";
  yield(4ms);
  EXPECT_TRUE(sleeps()) << "the program is still there";
}

TEST_F(LongYields, does_not_sleep_where_they_are_the_smaller_part) {
  for (int i = 0; i < 100; ++i) {
    yield(4ms);
    for (int k = 0; k < 50; ++k) yield(100us);
    EXPECT_FALSE(sleeps());
  }
}

TEST_F(LongYields, forgets_a_program_that_has_ended) {
  for (int i = 0; i < 20; ++i) yield(4ms);
  now_ += 10ms;
  EXPECT_FALSE(sleeps());
  yield(100us);
  yield(1ms);
  EXPECT_FALSE(sleeps());
}

}  // namespace
}  // namespace cohort::core_sharing_test
