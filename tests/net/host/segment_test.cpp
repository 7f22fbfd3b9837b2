// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/segment.h>

#include <cohort/engine/tuning.h>

#include <gtest/gtest.h>

#include <bit>
#include <map>

namespace cohort::host::segment_test {
namespace {

TEST(Layout, gives_the_fewer_places_to_each_peer_the_more_there_are) {
  for (Rank ranks = 1; ranks <= 256; ++ranks) {
    const std::uint32_t stages =
        places_of_peer(ranks, tuning::stages::kLinkPiece, tuning::stages::kLinkPieces);
    EXPECT_TRUE(std::has_single_bit(stages) && stages >= tuning::stages::kLinkPieces);
    EXPECT_TRUE(stages == tuning::stages::kLinkPieces ||
                (ranks - 1) * stages * tuning::stages::kLinkPiece <= PayloadRing::kMostBytes)
        << ranks;
  }
  EXPECT_EQ(places_of_peer(2, tuning::stages::kLinkPiece, tuning::stages::kLinkPieces), 16);
  EXPECT_EQ(places_of_peer(128, tuning::messages::kCell, tuning::messages::kCells), tuning::messages::kCells);
}

TEST(Layout, of_a_group_takes_little_address_space) {
  constexpr std::size_t kBuffer = std::size_t{64} << 10;
  EXPECT_LT(Layout::of_group(2, kBuffer).size_bytes(), std::size_t{7} << 20);
  EXPECT_GT(Layout(2, kBuffer, 0).size_bytes(), Layout::of_group(2, kBuffer).size_bytes());
}

/// What all ranks look at takes pages of the host's, not of each rank's: 256 ranks, 40 pages.
TEST(RankLines, of_many_ranks_fit_a_page) {
  EXPECT_GE(4096 / sizeof(RankLines), 6);
  EXPECT_EQ(sizeof(RankLines) % (2 * kCacheLine), 0) << "lines that processors fetch together are one rank's";
  EXPECT_EQ(offsetof(RankLines, doorbell), 0)
      << "peers ring where they find it in memory of any communicator";
}

/// A group's lines lie in front of the rest.
TEST(Layout, of_a_group_leaves_room_for_lines) {
  EXPECT_GE(Layout::of_group(2, 4096).slot(0), sizeof(RankLines));
  EXPECT_EQ(Layout(2, 4096, 0).slot(0), 0);
}

/// Of all places, one after the other, none is where another one is.
TEST(Layout, no_place_overlaps_another) {
  constexpr Rank kRanks = 3;
  const Layout layout(kRanks, std::size_t{64} << 10, 0);
  std::map<std::size_t, std::size_t> taken;
  const auto take = [&taken](std::size_t at, std::size_t bytes) {
    EXPECT_TRUE(taken.emplace(at, bytes).second);
  };
  for (const std::uint64_t turn : {0, 1}) take(layout.slot(turn), tuning::slots::kMostBytes);
  for (Rank peer = 0; peer < kRanks; ++peer) {
    for (Lane lane = 0; lane < kMostLanes; ++lane)
      for (std::uint32_t i = 0;
           i < places_of_peer(kRanks, tuning::stages::kLinkPiece, tuning::stages::kLinkPieces); ++i)
        take(layout.stage(peer, lane, i), tuning::stages::kLinkPiece);
    for (std::uint32_t i = 0; i < tuning::messages::kCells; ++i)
      take(layout.packet(peer, i), sizeof(PacketCell));
    for (std::uint32_t i = 0; i < places_of_peer(kRanks, tuning::messages::kCell, tuning::messages::kCells);
         ++i)
      take(layout.packet_payload(peer, i), tuning::messages::kCell);
  }
  take(layout.payload_ring(), PayloadRing::kMostBytes);
  take(layout.ccl_in(), layout.buffer_bytes());
  take(layout.ccl_out(), layout.buffer_bytes());
  std::size_t end = 0;
  for (const auto& [at, bytes] : taken) {
    EXPECT_LE(end, at);
    end = at + bytes;
  }
  EXPECT_LE(end, layout.size_bytes());
}

}  // namespace
}  // namespace cohort::host::segment_test
