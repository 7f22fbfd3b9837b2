// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/start_line.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace cohort::bench::start_line_test {
namespace {

/// What a line of ranks on these processors says.
bool is_spread(const std::vector<int>& runs_on, std::size_t processors, StartLine::Polls polls) {
  const auto board = std::make_unique<Board>();
  for (std::size_t rank = 0; rank < runs_on.size(); ++rank) board->slots[rank].runs_on = runs_on[rank];
  return StartLine(*board, 0, static_cast<Rank>(runs_on.size()), polls, processors).is_spread();
}

TEST(StartLine, ranks_are_spread_where_no_processor_carries_more_than_it_has_to) {
  constexpr auto kYield = StartLine::Polls::yield;
  EXPECT_TRUE(is_spread({4, 7, 7, 4}, 2, kYield));
  EXPECT_FALSE(is_spread({4, 7, 7, 7}, 2, kYield));
  EXPECT_FALSE(is_spread({4, 4, 4, 4}, 2, kYield));
  EXPECT_TRUE(is_spread({0, 1, 0}, 2, kYield));
  EXPECT_FALSE(is_spread({0, 0, 0}, 2, kYield));
  EXPECT_TRUE(is_spread({3, 3}, 1, kYield));
}

TEST(StartLine, ranks_that_have_a_processor_each_or_share_a_thread_are_not_asked) {
  EXPECT_TRUE(is_spread({0, 0, 0}, 3, StartLine::Polls::spin));
  EXPECT_TRUE(is_spread({0, 0, 0}, 2, StartLine::Polls::once));
}

TEST(StartLine, whoever_arrives_says_where_it_runs) {
  const auto board = std::make_unique<Board>();
  board->slots[0].runs_on = -1;
  StartLine line(*board, 0, 1, StartLine::Polls::yield, 1);
  line.arrive(true);
  EXPECT_TRUE(line.is_released());
  EXPECT_TRUE(line.leave());
  EXPECT_GE(board->slots[0].runs_on.load(), 0);
}

}  // namespace
}  // namespace cohort::bench::start_line_test
