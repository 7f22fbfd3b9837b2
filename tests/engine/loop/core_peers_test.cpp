// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/core_peers.h>

#include <gtest/gtest.h>

#include <optional>

namespace cohort::core_peers_test {
namespace {

TEST(CorePeers, are_met_on_the_core_where_they_say_they_run) {
  CorePeers cores;
  CoreWord own{0};
  CoreWord peer{0};
  CoreWord other{0};
  CoreGroup group(cores.groups(), own, {&peer});
  group.add(other);
  EXPECT_FALSE(cores.meet_on(0)) << "nobody has said anything";
  other = 1;
  EXPECT_TRUE(cores.meet_on(0));
  EXPECT_FALSE(cores.meet_on(1));
  peer = 2;
  EXPECT_TRUE(cores.meet_on(1));
}

TEST(CorePeers, are_told_where_this_engine_runs) {
  CorePeers cores;
  CoreWord own{0};
  CoreWord own_in_other_job{0};
  const CoreGroup group(cores.groups(), own, {});
  const CoreGroup other(cores.groups(), own_in_other_job, {});
  EXPECT_FALSE(cores.meet_on(7));
  EXPECT_EQ(own, 8);
  EXPECT_EQ(own_in_other_job, 8);
}

TEST(CorePeers, are_not_met_where_the_kernel_does_not_say_which_core_that_is) {
  CorePeers cores;
  CoreWord own{0};
  CoreWord peer{0};
  const CoreGroup group(cores.groups(), own, {&peer});
  EXPECT_FALSE(cores.meet_on(-1));
  EXPECT_EQ(own, 0);
}

TEST(CorePeers, are_not_the_ones_who_keep_a_core_for_long) {
  using std::chrono::microseconds;
  constexpr TimePoint kBegin{std::chrono::hours(1)};
  CorePeers cores;
  EXPECT_FALSE(cores.is_core_taken(kBegin));
  cores.note_hand_over(kBegin, kBegin + CorePeers::kLongTurn - microseconds(1));
  EXPECT_FALSE(cores.is_core_taken(kBegin + CorePeers::kLongTurn));
  const TimePoint ended = kBegin + 2 * CorePeers::kLongTurn;
  cores.note_hand_over(ended - CorePeers::kLongTurn, ended);
  EXPECT_TRUE(cores.is_core_taken(ended));
  EXPECT_TRUE(cores.is_core_taken(ended + CorePeers::kTakenFor - microseconds(1)));
  EXPECT_FALSE(cores.is_core_taken(ended + CorePeers::kTakenFor)) << "nobody finds out that it is free";
}

TEST(CorePeers, make_no_room_for_one_that_has_left) {
  CorePeers cores;
  CoreWord own{0};
  std::optional<CoreGroup> group(std::in_place, cores.groups(), own, std::vector<const CoreWord*>());
  EXPECT_FALSE(cores.empty());
  EXPECT_FALSE(cores.meet_on(3));
  group.reset();
  EXPECT_TRUE(cores.empty());
  EXPECT_EQ(own, 0);
}

}  // namespace
}  // namespace cohort::core_peers_test
