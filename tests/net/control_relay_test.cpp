// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_relay.h>

#include <cohort/net/control_graph.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <utility>
#include <vector>

namespace cohort::control_relay_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr Rank kSize = 40;

Membership membership_of(Rank rank, Rank size = kSize) {
  Membership membership;
  membership.rank = rank;
  membership.size = size;
  membership.neighbours = ControlGraph::around(rank, size);
  return membership;
}

ControlMessage word_of(Rank origin, std::uint64_t number,
                       ControlMessage::Type type = ControlMessage::Type::goodbye) {
  ControlMessage message;
  message.type = type;
  message.origin = origin;
  message.number = number;
  return message;
}

TEST(ControlRelay, numbers_what_this_rank_says) {
  const Membership membership = membership_of(3);
  ControlRelay relay(membership);
  const ControlMessage first = relay.sign({});
  const ControlMessage second = relay.sign({}, 7);
  EXPECT_EQ(first.origin, 3U);
  EXPECT_EQ(first.to, ControlMessage::kNobody);
  EXPECT_EQ(second.to, 7U);
  EXPECT_LT(first.number, second.number);
  EXPECT_FALSE(relay.is_news(first)) << "its own, come back";
}

TEST(ControlRelay, takes_each_word_of_a_rank_once_and_none_that_is_older) {
  const Membership membership = membership_of(3);
  ControlRelay relay(membership);
  EXPECT_TRUE(relay.is_news(word_of(20, 1)));
  EXPECT_FALSE(relay.is_news(word_of(20, 1)));
  EXPECT_TRUE(relay.is_news(word_of(21, 1))) << "another rank's";
  EXPECT_TRUE(relay.is_news(word_of(20, 5))) << "those between were replaced by it on the way";
  EXPECT_FALSE(relay.is_news(word_of(20, 4)));
}

TEST(ControlRelay, takes_a_hello_by_all_ways_once_whatever_was_said_before) {
  const Membership membership = membership_of(3);
  ControlRelay relay(membership);
  EXPECT_TRUE(relay.is_news(word_of(20, 9)));
  EXPECT_TRUE(relay.is_news(word_of(20, 1, ControlMessage::Type::hello)));
  EXPECT_FALSE(relay.is_news(word_of(20, 1, ControlMessage::Type::hello)));
}

TEST(ControlRelay, takes_a_cause_once_whatever_came_before_it) {
  const Membership membership = membership_of(3);
  ControlRelay relay(membership);
  EXPECT_TRUE(relay.is_news(word_of(20, 2)));
  EXPECT_TRUE(relay.is_news(word_of(20, 1, ControlMessage::Type::revoke)));
  EXPECT_FALSE(relay.is_news(word_of(20, 1, ControlMessage::Type::revoke)));
}

TEST(ControlRelay, passes_hellos_along_the_tree_and_all_else_to_all_neighbours) {
  const Membership membership = membership_of(3);
  ControlRelay relay(membership);
  EXPECT_THAT(relay.ways(word_of(20, 0, ControlMessage::Type::hello)), ElementsAre(7, 11, 19, 35, 1));
  EXPECT_THAT(relay.ways(word_of(20, 1, ControlMessage::Type::hello)),
              ElementsAreArray(membership.neighbours));
  EXPECT_THAT(relay.ways(word_of(20, 1)), ElementsAreArray(membership.neighbours));
  relay.add_way(30);
  relay.add_way(30);
  EXPECT_EQ(relay.ways(word_of(20, 1)).size(), membership.neighbours.size() + 1);
}

/// In how many steps a word of `origin` comes to all that read, if they all pass it on at once.
std::size_t steps_to_all(Rank size, Rank origin, const std::set<Rank>& computing) {
  std::vector<Membership> memberships;
  for (Rank rank = 0; rank < size; ++rank) memberships.push_back(membership_of(rank, size));
  std::vector<ControlRelay> relays(memberships.begin(), memberships.end());
  const ControlMessage word = relays[origin].sign(word_of(origin, 0));
  std::vector<Rank> at{origin};
  std::size_t reached = 1;
  std::size_t steps = 0;
  for (; !at.empty() && reached + computing.size() < size; ++steps) {
    std::vector<Rank> next;
    for (const Rank rank : at)
      for (const Rank peer : relays[rank].ways(word))
        if (!computing.contains(peer) && relays[peer].is_news(word)) next.push_back(peer);
    reached += next.size();
    at = std::move(next);
  }
  EXPECT_EQ(reached + computing.size(), size);
  return steps;
}

TEST(ControlRelay, a_word_comes_to_all_in_as_many_steps_as_the_ranks_have_bits) {
  for (const Rank size : {131, 256, 1000, 1024}) {
    const auto bits = static_cast<std::size_t>(std::bit_width(size - 1));
    for (const Rank origin : {Rank{0}, Rank{77}, size - 1}) EXPECT_LE(steps_to_all(size, origin, {}), bits);
  }
}

TEST(ControlRelay, a_word_goes_around_ranks_that_compute) {
  constexpr Rank kMany = 256;
  std::set<Rank> computing;
  for (Rank rank = 1; rank < kMany; rank += 3) computing.insert(rank);
  EXPECT_LE(steps_to_all(kMany, 0, computing), 2 * static_cast<std::size_t>(std::bit_width(kMany - 1)));
}

TEST(ControlRelay, refuses_what_no_rank_would_say) {
  const Membership membership = membership_of(3);
  const ControlRelay relay(membership);
  EXPECT_TRUE(relay.is_sound(word_of(39, 1)));
  EXPECT_FALSE(relay.is_sound(word_of(40, 1)));
  ControlMessage message = word_of(2, 1);
  message.to = 40;
  EXPECT_FALSE(relay.is_sound(message));
  message = word_of(2, 1);
  message.group = 1;
  EXPECT_FALSE(relay.is_sound(message)) << "what is said in a group is not passed on";
  Membership of_all = membership_of(3);
  of_all.neighbours.clear();
  EXPECT_FALSE(ControlRelay(of_all).is_sound(word_of(2, 1))) << "all are connected";
}

}  // namespace
}  // namespace cohort::control_relay_test
