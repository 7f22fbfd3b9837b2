// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/rank_list.h>

#include <gtest/gtest.h>

#include <vector>

namespace cohort::rank_list_test {
namespace {

TEST(RankList, runs_of_ranks_are_shortened) {
  const std::pair<std::vector<Rank>, const char*> cases[] = {
      {{}, "no rank"},
      {{3}, "rank 3"},
      {{0, 1}, "ranks 0, 1"},
      {{0, 1, 2}, "ranks 0-2"},
      {{0, 2, 4}, "ranks 0, 2, 4"},
      {{1, 2, 3, 7, 9, 10, 11, 12}, "ranks 1-3, 7, 9-12"},
  };
  for (const auto& [ranks, text] : cases) EXPECT_EQ(describe_ranks(ranks), text);
}

}  // namespace
}  // namespace cohort::rank_list_test
