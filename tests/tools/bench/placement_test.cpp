// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/placement.h>

#include <cohort/engine/system/affinity.h>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace cohort::bench::placement_test {
namespace {

TEST(Placement, distances_are_told_apart_by_the_round_trip) {
  EXPECT_EQ(distance_of(60), Distance::siblings);
  EXPECT_EQ(distance_of(130), Distance::near);
  EXPECT_EQ(distance_of(480), Distance::far);
}

TEST(Placement, every_rank_learns_the_same_round_trip_each_time) {
  constexpr Rank kRanks = 3;
  constexpr int kTimes = 3;
  const auto board = std::make_unique<Board>();
  std::array<std::vector<double>, kRanks> seen;
  const auto be_rank = [&](Rank rank) {
    StartLine line(*board, rank, kRanks, StartLine::Polls::yield, 2);
    const auto meet = [&] {
      line.arrive(false);
      while (!line.is_released()) continue;
      (void)line.leave();
    };
    Placement placement(*board, rank, Rank{1});
    for (int i = 0; i < kTimes; ++i) {
      meet();
      if (!placement.measure())
        while (!placement.is_done()) std::this_thread::yield();
      meet();
      seen[rank].push_back(placement.round_trip_ns());
      meet();
    }
  };
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < kRanks; ++rank) ranks.emplace_back(be_rank, rank);
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(seen[0].size(), static_cast<std::size_t>(kTimes));
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
  const bool has_two_cores = affinity::usable_processors().size() > 1;
  for (const double round_trip_ns : seen[0]) EXPECT_EQ(round_trip_ns > 0, has_two_cores);
}

TEST(Placement, ranks_of_one_thread_do_not_wait_for_each_other) {
  const auto board = std::make_unique<Board>();
  Placement first(*board, 0, std::nullopt);
  Placement second(*board, 1, std::nullopt);
  EXPECT_TRUE(first.measure());
  EXPECT_FALSE(second.measure());
  EXPECT_TRUE(second.is_done());
  EXPECT_EQ(second.round_trip_ns(), 0);
}

TEST(Placement, one_rank_has_no_way_to_another_core) {
  const auto board = std::make_unique<Board>();
  Placement placement(*board, 0, std::nullopt);
  EXPECT_TRUE(placement.measure());
  EXPECT_TRUE(placement.is_done());
  EXPECT_EQ(placement.round_trip_ns(), 0);
}

}  // namespace
}  // namespace cohort::bench::placement_test
