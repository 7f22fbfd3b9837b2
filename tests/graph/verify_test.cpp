// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/verify.h>

#include <cohort/tests/graph/networks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cohort::graph::verify_test {
namespace {

using ::testing::HasSubstr;

/// What verify() says, with the node that it names; empty: nothing.
std::string complaint(const Graph& graph) {
  try {
    verify(graph);
  } catch (const GraphError& error) {
    EXPECT_EQ(error.code(), ErrorCode::dist_graph_build);
    EXPECT_FALSE(error.advice().empty());
    return error.node() + ": " + error.cause();
  }
  return "";
}

TEST(Verify, accepts_a_step_of_training) { EXPECT_EQ(complaint(test::chain_of_equal(4, 16, 1)), ""); }

TEST(Verify, names_a_second_producer) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  graph.add_node({.name = "again", .op = "x", .outputs = {*graph.find_tensor("g1")}});
  EXPECT_EQ(complaint(graph), "node again: it produces tensor g1, and so does node back1");
}

TEST(Verify, names_a_tensor_that_nothing_produces) {
  Graph graph;
  const TensorId t = graph.add_tensor({.name = "t"});
  graph.add_node({.name = "reader", .op = "x", .inputs = {t}});
  EXPECT_EQ(complaint(graph), "node reader: it reads tensor t, which nothing produces");
}

TEST(Verify, names_who_overwrites_a_parameter) {
  Graph graph;
  const TensorId w = graph.add_tensor({.name = "w", .role = TensorRole::parameter});
  graph.add_node({.name = "writer", .op = "x", .outputs = {w}});
  EXPECT_EQ(complaint(graph), "node writer: it produces tensor w, which is given as parameter");
}

TEST(Verify, names_a_cycle) {
  Graph graph;
  const TensorId t = graph.add_tensor({.name = "t"});
  const TensorId u = graph.add_tensor({.name = "u"});
  graph.add_node({.name = "a", .op = "x", .inputs = {t}, .outputs = {u}});
  graph.add_node({.name = "b", .op = "x", .inputs = {u}, .outputs = {t}});
  EXPECT_EQ(complaint(graph), "node a: nodes wait for each other: a -> b -> a");
}

TEST(Verify, names_a_node_that_stands_too_early) {
  Graph graph;
  const TensorId t = graph.add_tensor({.name = "t"});
  graph.add_node({.name = "reader", .op = "x", .inputs = {t}});
  graph.add_node({.name = "writer", .op = "x", .outputs = {t}});
  EXPECT_EQ(complaint(graph), "node reader: it stands before node writer, which it needs");
}

TEST(Verify, compares_shapes) {
  Graph graph;
  const TensorId a = graph.add_tensor({.name = "a", .shape = {2, 3}, .role = TensorRole::input});
  const TensorId b = graph.add_tensor({.name = "b", .shape = {3, 4}, .role = TensorRole::input});
  const TensorId right = graph.add_tensor({.name = "right", .shape = {2, 4}});
  const TensorId wrong = graph.add_tensor({.name = "wrong", .shape = {4, 2}});
  const TensorId sum = graph.add_tensor({.name = "sum", .shape = {2, 3}});
  graph.add_node({.name = "product", .op = "matmul", .inputs = {a, b}, .outputs = {right}});
  EXPECT_EQ(complaint(graph), "");
  Graph second = graph;
  graph.add_node({.name = "turned", .op = "matmul", .inputs = {a, b}, .outputs = {wrong}});
  EXPECT_THAT(complaint(graph), HasSubstr("node turned: matmul of a float32[2, 3] and b float32[3, 4]"));
  second.add_node({.name = "sum", .op = "add", .inputs = {a, b}, .outputs = {sum}});
  EXPECT_THAT(complaint(second), HasSubstr("node sum: add of b float32[3, 4] gives sum float32[2, 3]"));
}

TEST(Verify, a_turned_matmul_has_the_shape_of_its_attributes) {
  Graph graph;
  const TensorId a = graph.add_tensor({.name = "a", .shape = {3, 2}, .role = TensorRole::input});
  const TensorId b = graph.add_tensor({.name = "b", .shape = {4, 3}, .role = TensorRole::input});
  const TensorId out = graph.add_tensor({.name = "out", .shape = {2, 4}});
  graph.add_node({.name = "product",
                  .op = "matmul",
                  .inputs = {a, b},
                  .outputs = {out},
                  .attributes = {{"transpose_a", true}, {"transpose_b", true}}});
  EXPECT_EQ(complaint(graph), "");
}

TEST(Verify, names_a_gradient_of_another_shape_and_one_of_no_parameter) {
  Graph graph = test::chain_of_equal(1, 4, 1);
  Graph second = graph;
  graph.tensor(*graph.find_tensor("g0")).shape = {5};
  EXPECT_THAT(complaint(graph), HasSubstr("tensor g0: it has 5 elements"));
  second.tensor(*second.find_tensor("g0")).gradient_of = second.find_tensor("h0");
  EXPECT_THAT(complaint(second),
              HasSubstr("tensor g0: it is marked as gradient of h0, which is no parameter"));
}

TEST(Verify, names_a_reference_to_what_was_removed) {
  Graph graph = test::chain_of_equal(1, 4, 1);
  graph.remove_tensor(*graph.find_tensor("h0"));
  EXPECT_THAT(complaint(graph), HasSubstr("node layer0: it refers to tensor number"));
}

TEST(Verify, names_a_shape_that_no_memory_holds) {
  Graph graph;
  graph.add_tensor({.name = "t", .shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}});
  EXPECT_THAT(complaint(graph), HasSubstr("tensor t: it has 4.83"));
  graph.tensor(*graph.find_tensor("t")).shape = {3, -1};
  EXPECT_EQ(complaint(graph), "tensor t: a dimension of -1");
}

TEST(Verify, names_a_collective_that_is_none) {
  Graph graph;
  const TensorId t = graph.add_tensor({.name = "t", .role = TensorRole::input});
  const TensorId u = graph.add_tensor({.name = "u"});
  graph.add_node(
      {.name = "sum", .op = "sum_all", .kind = NodeKind::collective, .inputs = {t}, .outputs = {u}});
  EXPECT_EQ(complaint(graph), "node sum: sum_all is no collective");
}

}  // namespace
}  // namespace cohort::graph::verify_test
