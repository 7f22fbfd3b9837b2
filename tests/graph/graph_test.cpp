// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/graph.h>

#include <cohort/graph/dependencies.h>
#include <cohort/tests/graph/networks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::graph::graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_in_order(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.order()) names.push_back(graph.node(id).name);
  return names;
}

TEST(Graph, keeps_nodes_in_order_and_ids_through_changes) {
  Graph graph;
  const NodeId first = graph.add_node({.name = "a", .op = "x"});
  const NodeId last = graph.add_node({.name = "c", .op = "x"});
  const NodeId between = graph.insert_node(1, {.name = "b", .op = "x"});
  EXPECT_THAT(names_in_order(graph), ElementsAre("a", "b", "c"));
  graph.remove_node(first);
  EXPECT_THAT(names_in_order(graph), ElementsAre("b", "c"));
  EXPECT_EQ(graph.node(last).name, "c");
  EXPECT_EQ(graph.find_node("b"), between);
  EXPECT_EQ(graph.find_node("a"), std::nullopt);
}

TEST(Graph, refuses_a_name_that_is_in_use_and_offers_a_free_one) {
  Graph graph;
  graph.add_tensor({.name = "t"});
  EXPECT_EQ(graph.free_tensor_name("t"), "t.2");
  EXPECT_EQ(graph.free_tensor_name("u"), "u");
  try {
    graph.add_tensor({.name = "t"});
    FAIL() << "a second t";
  } catch (const GraphError& error) {
    EXPECT_EQ(error.code(), ErrorCode::dist_graph_build);
    EXPECT_EQ(error.node(), "tensor t");
    EXPECT_THAT(error.what(), HasSubstr("GE_DIST_GRAPH_BUILD_ERROR: tensor t: the name is in use"));
  }
}

TEST(Graph, knows_the_bytes_of_a_tensor) {
  const Tensor tensor{.name = "t", .type = DataType::float16, .shape = {3, 5}};
  EXPECT_EQ(tensor.bytes(), 30U);
  EXPECT_EQ(Tensor{.name = "scalar"}.bytes(), 4U);
}

TEST(Dependencies, tell_producers_consumers_and_what_is_reached) {
  const Graph graph = test::chain_of_equal(2, 4, 1);
  const Dependencies dependencies(graph);
  const TensorId gradient = *graph.find_tensor("g1");
  EXPECT_EQ(graph.node(*dependencies.producer(gradient)).name, "back1");
  ASSERT_EQ(dependencies.consumers(gradient).size(), 1U);
  EXPECT_EQ(graph.node(dependencies.consumers(gradient)[0]).name, "update1");
  EXPECT_EQ(dependencies.producer(*graph.find_tensor("x")), std::nullopt);

  const NodeId loss = *graph.find_node("loss");
  const std::vector<bool> after_loss = dependencies.reached_from(std::span(&loss, 1));
  EXPECT_TRUE(after_loss[index_of(*graph.find_node("update0"))]);
  EXPECT_FALSE(after_loss[index_of(*graph.find_node("layer1"))]);
  const std::vector<bool> before_loss = dependencies.leading_to(std::span(&loss, 1));
  EXPECT_TRUE(before_loss[index_of(*graph.find_node("layer0"))]);
  EXPECT_FALSE(before_loss[index_of(*graph.find_node("back1"))]);
}

TEST(Dependencies, sorting_keeps_an_order_that_is_right) {
  const Graph graph = test::chain_of_equal(5, 4, 1);
  EXPECT_EQ(names_in_order(sorted(graph)), names_in_order(graph));
}

TEST(Dependencies, sorting_moves_only_what_stands_too_early) {
  Graph graph;
  const TensorId t = graph.add_tensor({.name = "t"});
  graph.add_node({.name = "reader", .op = "x", .inputs = {t}});
  graph.add_node({.name = "other", .op = "x"});
  graph.add_node({.name = "writer", .op = "x", .outputs = {t}});
  EXPECT_THAT(names_in_order(sorted(graph)), ElementsAre("other", "writer", "reader"));
}

}  // namespace
}  // namespace cohort::graph::graph_test
