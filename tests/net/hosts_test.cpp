// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/hosts.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::hosts_test {
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

TEST(Hosts, have_shares_by_the_bandwidths_of_their_networks) {
  const Hosts equal = Hosts::apart(3);
  for (std::size_t elements = 0; elements < 50; ++elements)
    for (Rank host = 0; host <= 3; ++host) {
      EXPECT_EQ(equal.elements_before(host, elements), elements * host / 3);
      EXPECT_EQ(equal.with_bandwidths(std::vector<std::uint32_t>(3, 25)).elements_before(host, elements),
                elements * host / 3);
    }
  const Hosts hosts = equal.with_bandwidths(std::vector<std::uint32_t>{1, 2, 5});
  EXPECT_EQ(hosts.elements_before(1, 80), 10U);
  EXPECT_EQ(hosts.elements_before(2, 80), 30U);
  EXPECT_EQ(hosts.elements_before(3, 80), 80U);
  EXPECT_TRUE(equal.are_bandwidths_equal());
  EXPECT_FALSE(hosts.are_bandwidths_equal());
  EXPECT_FALSE(equal.with_bandwidths(std::vector<std::uint32_t>{2, 1, 3}).are_bandwidths_equal());
}

TEST(Hosts, cut_the_longest_vector_among_the_fastest_networks) {
  constexpr Rank kHosts = 5000;
  constexpr std::size_t kElements = (std::size_t{1} << 60) + 7;
  const Hosts hosts =
      Hosts::apart(kHosts).with_bandwidths(std::vector<std::uint32_t>(kHosts, kMostHostBandwidth));
  EXPECT_EQ(hosts.elements_before(kHosts, kElements), kElements);
  for (Rank host = 0; host < kHosts; ++host)
    ASSERT_LT(hosts.elements_before(host, kElements), hosts.elements_before(host + 1, kElements));
}

TEST(Hosts, of_some_ranks_keep_the_bandwidths_of_their_networks) {
  const Hosts all = Hosts(std::vector<Rank>{0, 0, 1, 2}).with_bandwidths(std::vector<std::uint32_t>{1, 7, 3});
  const Hosts some = all.among(std::vector<Rank>{3, 0});
  EXPECT_EQ(some.elements_before(1, 40), 30U);
  EXPECT_TRUE(all.among(std::vector<Rank>{0, 1}).are_bandwidths_equal());
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
}  // namespace cohort::hosts_test
