// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/forced_algorithms.h>

#include <cohort/cohort.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>

#include <string>

namespace cohort::forced_algorithms_test {
namespace {

using test::error_from;
using test::kind_of;
using ::testing::HasSubstr;

ForcedAlgorithms forced(std::string_view text) { return {text, AlgorithmTable::library()}; }

void expect_refused(std::string_view text, const std::string& why) {
  const auto error = error_from([&] { (void)forced(text); });
  ASSERT_EQ(kind_of(error), "InvalidArgument") << text;
  EXPECT_THAT(error->what(), HasSubstr("COHORT_ALGO='" + std::string(text) + "'"));
  EXPECT_THAT(error->what(), HasSubstr(why));
}

TEST(ForcedAlgorithms, nothing_is_forced_by_an_empty_text) {
  for (const Operator op : all_operators()) EXPECT_EQ(forced("").of(op), "");
}

TEST(ForcedAlgorithms, one_name_is_for_all_operators) {
  for (const Operator op : all_operators()) EXPECT_EQ(forced("mesh").of(op), "mesh");
}

TEST(ForcedAlgorithms, an_operator_has_its_own) {
  const ForcedAlgorithms some = forced("all_reduce=ring/all_gather=mesh");
  EXPECT_EQ(some.of(operator_of<AllReduce>), "ring");
  EXPECT_EQ(some.of(operator_of<AllGather>), "mesh");
  EXPECT_EQ(some.of(operator_of<Broadcast>), "");
}

TEST(ForcedAlgorithms, a_name_that_stands_alone_is_for_the_others) {
  for (const std::string_view text : {"tree/all_reduce=ring", "all_reduce=ring/tree"}) {
    EXPECT_EQ(forced(text).of(operator_of<AllReduce>), "ring");
    EXPECT_EQ(forced(text).of(operator_of<Broadcast>), "tree");
  }
}

TEST(ForcedAlgorithms, an_algorithm_may_be_named_by_its_levels) {
  for (const std::string_view text :
       {"all_reduce=level0:mesh;level1:nhr/all_gather=ring",
        "all_gather=ring/all_reduce=level1:nhr;level0:mesh", "all_reduce=mesh_nhr/all_gather=ring"}) {
    EXPECT_EQ(forced(text).of(operator_of<AllReduce>), "mesh_nhr");
    EXPECT_EQ(forced(text).of(operator_of<AllGather>), "ring");
  }
  EXPECT_EQ(forced("level0:tree;level1:nhr").of(operator_of<AllReduce>), "tree_nhr");
  for (const std::string_view text :
       {"level0:mesh;level1:mesh;level2:nhr", "level2:nhr;level1:mesh;level0:mesh"})
    EXPECT_EQ(forced(text).of(operator_of<AllReduce>), "mesh_mesh_nhr");
}

TEST(ForcedAlgorithms, levels_that_do_not_exist_are_refused_with_those_that_do) {
  expect_refused("all_reduce=level0:mesh;level1:tree",
                 "'level0:mesh;level1:tree' is no algorithm on levels of all_reduce, which has "
                 "level0:mesh;level1:nhr, level0:mesh;level1:ring, ");
  expect_refused("level0:two;level1:rings", "'level0:two;level1:rings' is none of level0:tree;level1:nb, ");
  expect_refused("all_reduce=level0:two;level1:rings",
                 "'level0:two;level1:rings' is no algorithm on levels of all_reduce, which has level0:mesh;");
  expect_refused("all_reduce=level0:recursive;level1:doubling", "is no algorithm on levels of all_reduce");
  expect_refused("all_reduce=level0:mesh_nhr;level1:pipelined", "is no algorithm on levels of all_reduce");
  expect_refused("scatter=level0:mesh;level1:nhr", "of scatter, which has level0:star;level1:star");
  expect_refused("scan=level0:mesh;level1:nhr", "is no algorithm on levels of scan, which has none");
  expect_refused("all_reduce=level0:mesh;level3:nhr", "'level3:nhr' is for no level; there are level0,");
  expect_refused("all_reduce=level0:mesh;level2:nhr",
                 "does not name an algorithm for each of level0 to level2");
  expect_refused("all_reduce=level0:mesh;level1:nhr;level2:",
                 "does not name an algorithm for each of level0 to level2");
  expect_refused("level0:;level0:mesh", "level0 is there twice in 'level0:;level0:mesh'");
  expect_refused("all_reduce=level0:mesh;level1:mesh_nhr", "is no algorithm on levels of all_reduce");
  expect_refused("all_reduce=level0:mesh;level1:nhr;level2:ring", "is no algorithm on levels of all_reduce");
  expect_refused("all_reduce=level0:mesh", "does not name an algorithm for each of level0 and level1");
  expect_refused("all_reduce=level0:mesh;level0:nhr", "level0 is there twice in 'level0:mesh;level0:nhr'");
  expect_refused("level0:mesh;level1:", "does not name an algorithm for each of level0 and level1");
}

TEST(ForcedAlgorithms, what_does_not_exist_is_refused_with_what_does) {
  expect_refused("rng", "'rng' is none of slots, ");
  expect_refused("all_reduce=rng", "'rng' is no algorithm of all_reduce, which has slots, ");
  expect_refused("reduce_all=ring", "'reduce_all' is none of barrier, ");
  expect_refused("scatter=ring", "'ring' is no algorithm of scatter");
  expect_refused("all_reduce=ring/all_reduce=mesh", "all_reduce is there twice");
  expect_refused("ring/mesh", "'ring' and 'mesh' are both for all operators");
  expect_refused("ring/", "'' is none of");
  expect_refused("=ring", "'' is none of");
  expect_refused("all_reduce=", "'' is no algorithm of all_reduce");
}

}  // namespace
}  // namespace cohort::forced_algorithms_test
