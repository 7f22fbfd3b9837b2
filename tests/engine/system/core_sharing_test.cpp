// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/core_sharing.h>

#include <gtest/gtest.h>

namespace cohort {
namespace {

constexpr TimePoint kBegin{std::chrono::hours(1)};

TEST(CoreSharing, yields_among_ranks_that_give_the_core_back) {
  CoreSharing sharing;
  EXPECT_FALSE(sharing.should_sleep(kBegin));
  sharing.note_yield(kBegin, kBegin + std::chrono::microseconds(300));
  EXPECT_FALSE(sharing.should_sleep(kBegin + std::chrono::microseconds(301)));
}

TEST(CoreSharing, sleeps_for_a_while_beside_a_program_that_keeps_the_core) {
  CoreSharing sharing;
  const TimePoint ended = kBegin + std::chrono::milliseconds(3);
  sharing.note_yield(kBegin, ended);
  EXPECT_TRUE(sharing.should_sleep(ended));
  EXPECT_TRUE(sharing.should_sleep(ended + CoreSharing::kSleepsFor / 2));
  EXPECT_FALSE(sharing.should_sleep(ended + CoreSharing::kSleepsFor)) << "it never tries again";
}

}  // namespace
}  // namespace cohort
