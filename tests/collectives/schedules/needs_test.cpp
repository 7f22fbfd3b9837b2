// SPDX-License-Identifier: Apache-2.0
// Algorithms on levels ask for the links that they use. That they use no others is the checker's.
#include <cohort/collectives/schedules/algorithm_table.h>

#include <gtest/gtest.h>

#include <vector>

namespace cohort::needs_test {
namespace {

/// Hosts of 5, 5 and 5 ranks.
const Hosts& hosts() {
  static const std::vector<Rank> host_of = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
  static const Hosts hosts(host_of);
  return hosts;
}

struct Links {
  std::size_t inside = 0;
  std::size_t across = 0;
};

/// That all ranks have on a lane, each end counted.
Links links_of(Operator op, std::string_view name, Lane lane = 0, const Hosts& of = hosts()) {
  const Needs needs = AlgorithmTable::library().find(op, name)->needs(std::size_t{1} << 20, of);
  Links links;
  for (Rank from = 0; from < of.ranks(); ++from)
    for (Rank to = 0; to < of.ranks(); ++to)
      if (from != to && needs.has_link(of, from, to, lane))
        ++(of.host_of(from) == of.host_of(to) ? links.inside : links.across);
  return links;
}

TEST(Needs, of_trees_on_levels_are_their_edges_and_links_between_leaders) {
  constexpr std::size_t kEdges = 3 * 4;
  constexpr std::size_t kPairs = 3;
  for (const auto& [op, name] :
       {std::pair{operator_of<AllReduce>, "tree_nhr"}, std::pair{operator_of<Barrier>, "tree_nb"}}) {
    EXPECT_EQ(links_of(op, name).inside, 2 * kEdges) << name;
    EXPECT_EQ(links_of(op, name).across, 2 * kPairs) << name;
  }
}

TEST(Needs, of_a_pipeline_have_the_second_lane_inside_only) {
  const Links first = links_of(operator_of<AllReduce>, "mesh_nhr_pipelined", 0);
  const Links second = links_of(operator_of<AllReduce>, "mesh_nhr_pipelined", 1);
  EXPECT_EQ(first.inside, 3U * 5 * 4);
  EXPECT_EQ(first.across, 5U * 3 * 2);
  EXPECT_EQ(second.inside, first.inside);
  EXPECT_EQ(second.across, 0U);
  EXPECT_EQ(links_of(operator_of<AllReduce>, "mesh_nhr_pipelined", 2).inside, 0U);
}

/// Hosts of 2 and 3: cuts at 0, 1/3, 1/2, 2/3 and 1, a pair between neighbours.
TEST(Needs, of_ahc_are_links_between_ranks_whose_parts_overlap) {
  const Hosts two_and_three(std::vector<Rank>{0, 1, 0, 1, 1});
  const Links links = links_of(operator_of<AllReduce>, "ahc", 0, two_and_three);
  EXPECT_EQ(links.inside, 2U + 3 * 2);
  EXPECT_EQ(links.across, 2U * 4);
  EXPECT_EQ(links_of(operator_of<AllReduce>, "ahc").across, 5U * 3 * 2) << "hosts of equal size";
}

/// Six hosts of two, three below each switch: to two hosts there, and to one below the other switch.
TEST(Needs, of_three_levels_are_links_below_the_switch_and_to_the_same_place_below_others) {
  const Hosts six = Hosts(std::vector<Rank>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}).below_switches(3);
  for (const Operator op : {operator_of<AllReduce>, operator_of<AllGather>, operator_of<ReduceScatter>}) {
    const Links links = links_of(op, "mesh_mesh_nhr", 0, six);
    EXPECT_EQ(links.inside, 12U) << to_string(op);
    EXPECT_EQ(links.across, 12U * 3) << to_string(op);
  }
}

}  // namespace
}  // namespace cohort::needs_test
