// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/gradients.h>

#include <cohort/tests/graph/networks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cohort::graph::gradients_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// "w1: g1", by parameter, with all parts.
std::vector<std::string> found_in(const Graph& graph) {
  std::vector<std::string> found;
  for (const Gradient& gradient : find_gradients(graph, Dependencies(graph))) {
    found.push_back(graph.tensor(gradient.parameter).name + ":");
    for (const TensorId part : gradient.parts) found.back() += " " + graph.tensor(part).name;
  }
  return found;
}

void drop_marks(Graph& graph) {
  for (const TensorId id : graph.tensors()) graph.tensor(id).gradient_of.reset();
}

TEST(Gradients, marked_ones_are_found_in_the_order_in_which_they_are_made) {
  EXPECT_THAT(found_in(test::chain_of_equal(3, 4, 1)), ElementsAre("w2: g2", "w1: g1", "w0: g0"));
}

TEST(Gradients, without_marks_they_are_found_from_the_loss_to_the_updates) {
  Graph graph = test::chain_of_equal(3, 5, 1);
  drop_marks(graph);
  EXPECT_THAT(found_in(graph), ElementsAre("w2: g2", "w1: g1", "w0: g0"));
}

TEST(Gradients, are_found_behind_what_the_optimizer_makes_of_them) {
  Graph graph = test::chain_of_equal(1, 5, 1);
  drop_marks(graph);
  const TensorId clipped = graph.add_tensor({.name = "clipped", .shape = {5}});
  graph.insert_node(graph.order().size() - 1, {.name = "clip",
                                               .op = "clip",
                                               .phase = Phase::update,
                                               .inputs = {*graph.find_tensor("g0")},
                                               .outputs = {clipped}});
  graph.node(*graph.find_node("update0")).inputs = {*graph.find_tensor("w0"), clipped};
  EXPECT_THAT(found_in(graph), ElementsAre("w0: g0"));
}

TEST(Gradients, one_that_leads_to_no_update_is_left_out) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  graph.remove_node(*graph.find_node("update1"));
  EXPECT_THAT(found_in(graph), ElementsAre("w0: g0"));
}

TEST(Gradients, without_updates_all_marked_ones_count) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  for (const char* name : {"update0", "update1"}) graph.remove_node(*graph.find_node(name));
  EXPECT_THAT(found_in(graph), ElementsAre("w1: g1", "w0: g0"));
}

/// w0 is used by both layers, so it has two gradients.
Graph with_shared_parameter(bool is_summed) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  const TensorId shared = *graph.find_tensor("w0");
  graph.tensor(*graph.find_tensor("g1")).gradient_of = shared;
  graph.remove_node(*graph.find_node("update1"));
  Node& update = graph.node(*graph.find_node("update0"));
  update.inputs = {shared, *graph.find_tensor("g0"), *graph.find_tensor("g1")};
  if (!is_summed) return graph;
  const TensorId sum =
      graph.add_tensor({.name = "sum", .shape = {4}, .role = TensorRole::gradient, .gradient_of = shared});
  update.inputs = {shared, sum};
  graph.insert_node(graph.order().size() - 1, {.name = "sum",
                                               .op = "add",
                                               .phase = Phase::backward,
                                               .inputs = {*graph.find_tensor("g0"), *graph.find_tensor("g1")},
                                               .outputs = {sum}});
  return graph;
}

TEST(Gradients, of_a_shared_parameter_only_the_sum_counts) {
  EXPECT_THAT(found_in(with_shared_parameter(true)), ElementsAre("w0: sum"));
}

TEST(Gradients, of_a_shared_parameter_without_a_sum_all_parts_count) {
  EXPECT_THAT(found_in(with_shared_parameter(false)), ElementsAre("w0: g1 g0"));
}

std::string complaint(const Graph& graph) {
  try {
    (void)find_gradients(graph, Dependencies(graph));
  } catch (const GraphError& error) {
    EXPECT_EQ(error.code(), ErrorCode::all_reduce_insert);
    return error.what();
  }
  return "";
}

TEST(Gradients, two_that_could_be_it_are_named) {
  Graph graph = with_shared_parameter(false);
  drop_marks(graph);
  EXPECT_THAT(complaint(graph),
              HasSubstr("GE_ALLREDUCE_INSERT_FAILED: tensor w0: its update reads g0 and g1"));
}

TEST(Gradients, none_at_all_is_an_error) {
  Graph graph;
  graph.add_node({.name = "n", .op = "x"});
  EXPECT_THAT(complaint(graph), HasSubstr("it has no gradient that is used"));
}

TEST(Gradients, nodes_end_one_behind_the_other) {
  const Graph graph = test::chain_of({{1, 10, 20}, {1, 30, 40}});
  const std::vector<double> ends = end_times_us(graph);
  EXPECT_EQ(ends[index_of(*graph.find_node("layer1"))], 40);
  EXPECT_EQ(ends[index_of(*graph.find_node("back1"))], 80);
  EXPECT_EQ(ends[index_of(*graph.find_node("back0"))], 100);
}

}  // namespace
}  // namespace cohort::graph::gradients_test
