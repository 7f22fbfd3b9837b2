// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/hosts.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using ::testing::ElementsAre;

TEST(Hosts, number_hosts_by_their_first_ranks) {
  const Hosts hosts(std::vector<Rank>{7, 3, 7, 3, 7, 9});
  EXPECT_EQ(hosts.ranks(), 6U);
  EXPECT_EQ(hosts.count(), 3U);
  EXPECT_THAT(hosts.ranks_of(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(hosts.ranks_of(1), ElementsAre(1, 3));
  EXPECT_THAT(hosts.ranks_of(2), ElementsAre(5));
  EXPECT_EQ(hosts.host_of(4), 0U);
  EXPECT_EQ(hosts.place_of(4), 2U);
  EXPECT_THAT(hosts.ranks_at(0), ElementsAre(0, 1, 5));
  EXPECT_THAT(hosts.ranks_at(2), ElementsAre(4));
  EXPECT_EQ(hosts.most_ranks(), 3U);
  EXPECT_FALSE(hosts.are_equal());
}

TEST(Hosts, list_the_ranks_of_a_place_in_the_order_of_hosts) {
  const Hosts hosts(std::vector<Rank>{0, 1, 1, 0, 2, 2});
  EXPECT_THAT(hosts.ranks_at(0), ElementsAre(0, 1, 4));
  EXPECT_THAT(hosts.ranks_at(1), ElementsAre(3, 2, 5));
}

TEST(Hosts, may_be_one_for_all_or_one_for_each) {
  EXPECT_EQ(Hosts(4).count(), 1U);
  EXPECT_EQ(Hosts::apart(4).count(), 4U);
  EXPECT_TRUE(Hosts(4).are_equal());
  EXPECT_TRUE(Hosts::apart(4).are_equal());
  EXPECT_FALSE(Hosts(4) == Hosts::apart(4));
}

TEST(Hosts, of_some_ranks_are_those_that_these_share) {
  const Hosts all(std::vector<Rank>{0, 0, 1, 1, 2});
  EXPECT_EQ(all.among(std::vector<Rank>{3, 0, 2}), Hosts(std::vector<Rank>{0, 1, 0}));
}

TEST(Hosts, fill_switches_in_their_order) {
  const Hosts hosts = Hosts(std::vector<Rank>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}).below_switches(2);
  ASSERT_NE(hosts.switches(), nullptr);
  EXPECT_EQ(*hosts.switches(), Hosts(std::vector<Rank>{0, 0, 1, 1, 2}));
  EXPECT_FALSE(hosts.switches()->are_equal());
  EXPECT_TRUE(hosts.below_switches(5).switches()->are_equal());
  EXPECT_EQ(hosts.below_switches(0).switches(), nullptr);
  EXPECT_EQ(Hosts(4).switches(), nullptr);
}

TEST(Hosts, of_some_ranks_are_below_the_switches_that_they_were_below) {
  const Hosts hosts = Hosts::apart(6).below_switches(2);
  EXPECT_EQ(*hosts.among(std::vector<Rank>{5, 0, 4, 1}).switches(), Hosts(std::vector<Rank>{0, 1, 0, 1}));
}

}  // namespace
}  // namespace cohort
