// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_graph.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

namespace cohort::control_graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Rank kSizes[] = {2, 3, 17, 18, 31, 64, 100, 256, 1000, 1024};

/// So many steps double what is reached from one to all.
std::size_t steps_for(Rank size) { return static_cast<std::size_t>(std::bit_width(size - 1)); }

/// Hosts of so many ranks each, placed one host after the other.
Hosts hosts_of(Rank size, Rank ranks_per_host) {
  std::vector<Rank> host_of;
  for (Rank rank = 0; rank < size; ++rank) host_of.push_back(rank / ranks_per_host);
  return Hosts(host_of);
}

/// Whom a word from `origin` reaches that everybody passes on to his neighbours, and in how many steps.
std::size_t steps_to_all(const ControlGraph& graph, Rank size, Rank origin, std::set<Rank> gone = {}) {
  std::vector<Rank> at{origin};
  gone.insert(origin);
  for (std::size_t steps = 0;; ++steps) {
    std::vector<Rank> next;
    for (const Rank rank : at)
      for (const Rank peer : graph.neighbours_of(rank))
        if (gone.insert(peer).second) next.push_back(peer);
    if (next.empty()) return gone.size() == size ? steps : ~std::size_t{0};
    at = std::move(next);
  }
}

TEST(ControlGraph, is_the_same_seen_from_both_ends) {
  for (const Rank size : kSizes) {
    const ControlGraph graph(hosts_of(size, 3));
    for (Rank rank = 0; rank < size; ++rank)
      for (const Rank peer : graph.neighbours_of(rank)) {
        EXPECT_NE(peer, rank);
        EXPECT_TRUE(std::ranges::binary_search(graph.neighbours_of(peer), rank)) << rank << " and " << peer;
      }
  }
}

TEST(ControlGraph, has_two_neighbours_on_other_hosts_for_each_power_of_two_at_most) {
  for (const Rank size : kSizes) {
    const ControlGraph graph(Hosts::apart(size));
    for (Rank rank = 0; rank < size; ++rank) {
      const std::size_t links = graph.neighbours_of(rank).size();
      if (graph.is_complete())
        EXPECT_EQ(links, size - 1);
      else
        EXPECT_LE(links, 2 * steps_for(size));
    }
  }
}

TEST(ControlGraph, is_complete_where_nobody_has_more_than_16_ranks_on_other_hosts) {
  EXPECT_TRUE(ControlGraph(Hosts::apart(17)).is_complete());
  EXPECT_FALSE(ControlGraph(Hosts::apart(18)).is_complete());
  EXPECT_TRUE(ControlGraph(Hosts(500)).is_complete()) << "one host";
  EXPECT_TRUE(ControlGraph(hosts_of(32, 16)).is_complete());
  EXPECT_FALSE(ControlGraph(hosts_of(36, 18)).is_complete());
  EXPECT_FALSE(ControlGraph(hosts_of(33, 32)).is_complete()) << "the one on the second host has 32";
}

TEST(ControlGraph, has_all_ranks_of_a_host_and_those_around) {
  EXPECT_THAT(ControlGraph(hosts_of(40, 4)).neighbours_of(6), ElementsAre(2, 4, 5, 7, 8, 10, 14, 22, 30, 38));
  EXPECT_THAT(ControlGraph::around(6, 40), ElementsAre(2, 4, 5, 7, 8, 10, 14, 22, 30, 38));
  EXPECT_THAT(ControlGraph(hosts_of(40, 8)).neighbours_of(0),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 36, 38, 39));
  EXPECT_THAT(ControlGraph::around(0, 1), IsEmpty());
  EXPECT_THAT(ControlGraph::around(1, 2), ElementsAre(0));
}

TEST(ControlGraph, goes_by_the_host_ids_that_ranks_tell) {
  std::vector<PeerInfo> peers(40);
  for (Rank rank = 0; rank < 40; ++rank) peers[rank].host_id.fill(static_cast<std::byte>(rank % 2));
  const std::vector<Rank> ranks = ControlGraph::of(peers).neighbours_of(0);
  std::vector<Rank> expected{1, 39};
  for (Rank rank = 2; rank < 40; rank += 2) expected.push_back(rank);
  std::ranges::sort(expected);
  EXPECT_EQ(ranks, expected);
}

TEST(ControlGraph, reaches_everybody_in_as_many_steps_as_the_ranks_have_bits) {
  for (const Rank size : kSizes) {
    const ControlGraph graph(Hosts::apart(size));
    for (Rank origin = 0; origin < size; origin += 1 + size / 8)
      EXPECT_LE(steps_to_all(graph, size, origin), steps_for(size)) << origin << " of " << size;
  }
}

/// The worst that so many can do is to leave one rank without neighbours.
TEST(ControlGraph, holds_together_unless_all_neighbours_of_somebody_are_gone) {
  constexpr Rank kSize = 64;
  const ControlGraph graph(Hosts::apart(kSize));
  std::vector<Rank> neighbours = graph.neighbours_of(5);
  std::set<Rank> gone(neighbours.begin(), neighbours.end());
  EXPECT_EQ(steps_to_all(graph, kSize, 5, gone), ~std::size_t{0});
  gone.erase(neighbours.front());
  EXPECT_LE(steps_to_all(graph, kSize, 5, gone), 2 * steps_for(kSize));
}

TEST(ControlGraph, has_the_binomial_tree_of_rank_0_among_its_edges) {
  for (const Rank size : kSizes) {
    std::vector<Rank> told(size, 0);
    for (Rank rank = 0; rank < size; ++rank) {
      const std::vector<Rank> around = ControlGraph::around(rank, size);
      for (const Rank child : ControlGraph::children_of(rank, size)) {
        EXPECT_EQ(ControlGraph::parent_of(child), rank);
        EXPECT_TRUE(std::ranges::binary_search(around, child));
        ++told[child];
      }
    }
    EXPECT_EQ(told[0], 0U);
    EXPECT_EQ(std::ranges::count(told, 1U), size - 1) << "everybody else once";
  }
  EXPECT_EQ(ControlGraph::parent_of(0), std::nullopt);
  EXPECT_THAT(ControlGraph::children_of(0, 1000), ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256, 512));
  EXPECT_THAT(ControlGraph::children_of(3, 16), ElementsAre(7, 11));
}

}  // namespace
}  // namespace cohort::control_graph_test
