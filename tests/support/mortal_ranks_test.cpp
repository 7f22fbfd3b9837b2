// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/mortal_ranks.h>

#include <gtest/gtest.h>

#include <stdexcept>

namespace cohort::test::mortal_ranks_test {
namespace {

TEST(MortalRanks, what_a_rank_throws_ends_its_process_and_no_more) {
  MortalRanks ranks;
  const auto life = [](Rank rank, int) -> int {
    if (rank == 1) throw std::runtime_error("as planned");
    return 3;
  };
  EXPECT_EQ(ranks.start(2, life), 0u);
  EXPECT_EQ(ranks.status_of(0), 3);
  EXPECT_EQ(ranks.status_of(1), 70);
}

TEST(MortalRanksDeathTest, a_rank_that_has_ended_gets_no_signal) {
  MortalRanks ranks;
  ranks.start(1, [](Rank, int) { return 0; });
  EXPECT_EQ(ranks.status_of(0), 0);
  constexpr int kNone = 0;  // that of kill(2) which only asks
  EXPECT_DEATH(ranks.signal(0, kNone), "rank 0 has ended");
  EXPECT_DEATH((void)ranks.status_of(0), "rank 0 has ended");
}

}  // namespace
}  // namespace cohort::test::mortal_ranks_test
