// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/insert_all_reduce.h>

#include <cohort/graph/graph_json.h>
#include <cohort/graph/planner/rules.h>
#include <cohort/graph/verify.h>
#include <cohort/tests/graph/networks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cohort::graph::insert_all_reduce_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr LinearCost kLine{.idle_us = 5, .queued_us = 5, .byte_us = 0.01};

std::vector<std::string> names_in_order(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.order()) names.push_back(graph.node(id).name);
  return names;
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<TensorId>& ids) {
  std::vector<std::string> names;
  for (const TensorId id : ids) names.push_back(graph.tensor(id).name);
  return names;
}

std::vector<const Node*> collectives_of(const Graph& graph) {
  std::vector<const Node*> nodes;
  for (const NodeId id : graph.order())
    if (graph.node(id).kind == NodeKind::collective) nodes.push_back(&graph.node(id));
  return nodes;
}

InsertOptions with(Strategy strategy) {
  InsertOptions options;
  options.strategy = strategy;
  options.cost = Cost::of(kLine);
  return options;
}

TEST(InsertionPoint, is_right_behind_the_last_producer) {
  const Graph graph = test::chain_of_equal(3, 4, 1);  // layers 0-2, loss 3, back2 4, back1 5, back0 6
  const Dependencies dependencies(graph);
  const std::vector<TensorId> two = {*graph.find_tensor("g1"), *graph.find_tensor("g2")};
  EXPECT_EQ(earliest_insertion_point(dependencies, two), 6U);
  const std::vector<TensorId> given = {*graph.find_tensor("x")};
  EXPECT_EQ(earliest_insertion_point(dependencies, given), 0U);
}

TEST(CreateAllReduce, has_an_output_for_each_input_and_says_what_it_is) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  const std::vector<TensorId> tensors = {*graph.find_tensor("g1"), *graph.find_tensor("g0")};
  const std::vector<Node> nodes = create_all_reduce(
      graph, tensors, {.name = "r", .reduction = ReduceOp::sum, .bucket = 3, .priority = 7});
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_THAT(names_of(graph, nodes[0].outputs), ElementsAre("g1.reduced", "g0.reduced"));
  EXPECT_EQ(nodes[0].attribute_or<std::int64_t>("bytes", 0), 32);
  EXPECT_EQ(nodes[0].attribute_or<std::int64_t>("bucket", 0), 3);
  EXPECT_EQ(nodes[0].attribute_or<std::string>("reduction", ""), "sum");
  EXPECT_EQ(nodes[0].attribute_or<std::string>("group", ""), "world");
}

TEST(CreateAllReduce, forms_of_hosts_are_three_collectives) {
  Graph graph = test::chain_of_equal(1, 4, 1);
  const std::vector<TensorId> tensors = {*graph.find_tensor("g0")};
  const std::vector<Node> shares =
      create_all_reduce(graph, tensors, {.name = "r", .form = ReduceForm::shares});
  const std::vector<Node> leader =
      create_all_reduce(graph, tensors, {.name = "l", .form = ReduceForm::leader});
  std::vector<std::string> ops;
  for (const auto* nodes : {&shares, &leader})
    for (const Node& node : *nodes)
      ops.push_back(node.op + " " + node.attribute_or<std::string>("group", ""));
  EXPECT_THAT(ops, ElementsAre("reduce_scatter host", "all_reduce across_hosts", "all_gather host",
                               "reduce host", "all_reduce leaders", "broadcast host"));
  EXPECT_EQ(shares[1].inputs, shares[0].outputs);
}

TEST(InsertCollectives, updates_read_the_result_and_backward_does_not) {
  Graph graph = test::chain_of_equal(2, 8, 1);
  const TensorId gradient = *graph.find_tensor("g1");
  graph.node(*graph.find_node("back0")).inputs.push_back(gradient);
  const Dependencies dependencies(graph);
  insert_collectives(graph, dependencies, create_all_reduce(graph, std::span(&gradient, 1), {.name = "r"}),
                     4);
  EXPECT_THAT(names_in_order(graph),
              ElementsAre("layer0", "layer1", "loss", "back1", "r", "back0", "update0", "update1"));
  EXPECT_THAT(names_of(graph, graph.node(*graph.find_node("update1")).inputs),
              ElementsAre("w1", "g1.reduced"));
  EXPECT_THAT(names_of(graph, graph.node(*graph.find_node("back0")).inputs), ElementsAre("d1", "w0", "g1"));
  verify(graph);
}

TEST(InsertCollectives, names_a_reader_that_stands_before_it) {
  Graph graph = test::chain_of_equal(2, 8, 1);
  const TensorId gradient = *graph.find_tensor("g1");
  const Dependencies dependencies(graph);
  std::vector<Node> nodes = create_all_reduce(graph, std::span(&gradient, 1), {.name = "r"});
  try {
    insert_collectives(graph, dependencies, std::move(nodes), graph.order().size());
    FAIL() << "behind the update";
  } catch (const GraphError& error) {
    EXPECT_EQ(error.code(), ErrorCode::all_reduce_insert);
    EXPECT_EQ(error.node(), "node update1");
  }
}

TEST(InsertAllReduce, overlapping_puts_each_gradient_behind_its_node) {
  const Insertion made =
      insert_all_reduce(test::chain_of_equal(2, 4, 1), with(Strategy::compute_communication_overlap));
  EXPECT_THAT(names_in_order(made.graph), ElementsAre("layer0", "layer1", "loss", "back1", "reduce_bucket_0",
                                                      "back0", "reduce_bucket_1", "update1", "update0"));
}

TEST(InsertAllReduce, overlapping_fills_buckets_within_the_limits) {
  InsertOptions options = with(Strategy::compute_communication_overlap);
  options.limits = {.min_tensor_bytes = 100, .max_group_size = 2};
  const Insertion made = insert_all_reduce(test::chain_of_equal(5, 4, 1), options);
  std::vector<std::size_t> sizes;
  for (const Node* node : collectives_of(made.graph)) sizes.push_back(node->inputs.size());
  EXPECT_THAT(sizes, ElementsAre(2U, 2U, 1U));
  options.limits = {.bucket_bytes = 48};
  EXPECT_EQ(collectives_of(insert_all_reduce(test::chain_of_equal(5, 4, 1), options).graph)[0]->inputs.size(),
            3U);
}

TEST(InsertAllReduce, synchronous_waits_for_the_end_of_backward) {
  const Insertion made = insert_all_reduce(test::chain_of_equal(2, 4, 10), with(Strategy::synchronous));
  EXPECT_THAT(names_in_order(made.graph), ElementsAre("layer0", "layer1", "loss", "back1", "back0",
                                                      "reduce_bucket_0", "update0", "update1"));
  EXPECT_DOUBLE_EQ(made.plan.exposed_us(), kLine.idle(32));
}

TEST(InsertAllReduce, smart_overlap_is_the_planners_optimum_and_not_worse_than_the_others) {
  const Graph graph = test::chain_of({{100, 10, 20}, {5000, 30, 40}, {10, 1, 2}, {10, 1, 2}, {900, 5, 5}});
  const Insertion smart = insert_all_reduce(graph, with(Strategy::smart_overlap));
  EXPECT_EQ(smart.plan.finish_us, plan(smart.plan.items, Cost::of(kLine)).finish_us);
  for (const Strategy strategy :
       {Strategy::synchronous, Strategy::compute_communication_overlap, Strategy::hierarchical})
    EXPECT_LE(smart.plan.finish_us, insert_all_reduce(graph, with(strategy)).plan.finish_us);
}

TEST(InsertAllReduce, measured_times_decide_the_order_of_collectives) {
  InsertOptions options = with(Strategy::compute_communication_overlap);
  options.ready_us = {{"g0", 10}, {"g1", 500}};
  const Insertion made = insert_all_reduce(test::chain_of_equal(2, 4, 1), options);
  const std::vector<const Node*> nodes = collectives_of(made.graph);
  EXPECT_THAT(names_of(made.graph, nodes[0]->inputs), ElementsAre("g0"));
  EXPECT_EQ(nodes[1]->after, std::vector<NodeId>{*made.graph.find_node(nodes[0]->name)});
}

TEST(InsertAllReduce, hierarchical_goes_host_by_host) {
  const Insertion made = insert_all_reduce(test::chain_of_equal(1, 4, 1), with(Strategy::hierarchical));
  std::vector<std::string> ops;
  for (const Node* node : collectives_of(made.graph)) ops.push_back(node->op);
  EXPECT_THAT(ops, ElementsAre("reduce_scatter", "all_reduce", "all_gather"));
  EXPECT_THAT(names_of(made.graph, made.graph.node(*made.graph.find_node("update0")).inputs),
              ElementsAre("w0", "g0.reduced"));
  InsertOptions leader = with(Strategy::hierarchical);
  leader.form = ReduceForm::leader;
  EXPECT_EQ(collectives_of(insert_all_reduce(test::chain_of_equal(1, 4, 1), leader).graph)[0]->op, "reduce");
}

TEST(InsertAllReduce, a_huge_gradient_travels_in_pieces_and_is_joined_again) {
  InsertOptions options = with(Strategy::compute_communication_overlap);
  options.split_bytes = 40;
  const Insertion made = insert_all_reduce(test::chain_of({{25, 1, 1}, {2, 1, 1}}), options);
  EXPECT_EQ(collectives_of(made.graph).size(), 4U);
  std::int64_t bytes = 0;
  for (const Node* node : collectives_of(made.graph)) bytes += node->attribute_or<std::int64_t>("bytes", 0);
  EXPECT_EQ(bytes, 108);
  EXPECT_THAT(names_of(made.graph, made.graph.node(*made.graph.find_node("g0.join")).inputs),
              ElementsAre("g0[0].reduced", "g0[1].reduced", "g0[2].reduced"));
  EXPECT_THAT(names_of(made.graph, made.graph.node(*made.graph.find_node("update0")).inputs),
              ElementsAre("w0", "g0.reduced"));
}

TEST(InsertAllReduce, a_bucket_of_two_types_is_two_collectives) {
  Graph graph = test::chain_of_equal(3, 4, 1);
  graph.tensor(*graph.find_tensor("g1")).type = DataType::bfloat16;
  const Insertion made = insert_all_reduce(graph, with(Strategy::synchronous));
  const std::vector<const Node*> nodes = collectives_of(made.graph);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_THAT(names_of(made.graph, nodes[0]->inputs), ElementsAre("g2", "g0"));
  EXPECT_THAT(names_of(made.graph, nodes[1]->inputs), ElementsAre("g1"));
}

TEST(InsertAllReduce, a_shared_parameter_is_reduced_once_and_an_unused_one_not_at_all) {
  Graph graph = test::chain_of_equal(3, 4, 1);
  const TensorId shared = *graph.find_tensor("w0");
  graph.tensor(*graph.find_tensor("g1")).gradient_of = shared;
  graph.remove_node(*graph.find_node("update1"));
  graph.remove_node(*graph.find_node("update2"));
  graph.node(*graph.find_node("update0")).inputs = {shared, *graph.find_tensor("g0"),
                                                    *graph.find_tensor("g1")};
  const Insertion made = insert_all_reduce(graph, with(Strategy::compute_communication_overlap));
  const std::vector<const Node*> nodes = collectives_of(made.graph);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_THAT(names_of(made.graph, nodes[0]->inputs), ElementsAre("w0.gradient"));
  EXPECT_THAT(names_of(made.graph, made.graph.node(*made.graph.find_node("update0")).inputs),
              ElementsAre("w0", "w0.gradient.reduced"));
}

TEST(InsertAllReduce, updates_amid_backward_move_behind_it) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  graph.reorder({order[0], order[1], order[2], order[3], *graph.find_node("update1"),
                 *graph.find_node("back0"), *graph.find_node("update0")});
  const Insertion made = insert_all_reduce(graph, with(Strategy::synchronous));
  EXPECT_THAT(names_in_order(made.graph), ElementsAre("layer0", "layer1", "loss", "back1", "back0",
                                                      "reduce_bucket_0", "update1", "update0"));
}

TEST(InsertAllReduce, updates_run_in_the_order_in_which_gradients_are_reduced) {
  const Graph graph = test::chain_of_equal(3, 4, 1);
  const Insertion made = insert_all_reduce(graph, with(Strategy::compute_communication_overlap));
  const std::vector<std::string> names = names_in_order(made.graph);
  EXPECT_THAT(std::vector(names.end() - 3, names.end()), ElementsAre("update2", "update1", "update0"));
  const std::vector<std::string> together =
      names_in_order(insert_all_reduce(graph, with(Strategy::synchronous)).graph);
  EXPECT_THAT(std::vector(together.end() - 3, together.end()), ElementsAre("update0", "update1", "update2"));
}

TEST(InsertAllReduce, a_rule_of_others_can_be_replayed) {
  InsertOptions options = with(Strategy::smart_overlap);
  options.rule = rule_of_each;
  const Insertion made = insert_all_reduce(test::chain_of_equal(3, 4, 1), options);
  EXPECT_EQ(collectives_of(made.graph).size(), 3U);
  EXPECT_EQ(made.plan.rule, "each alone");
}

TEST(InsertAllReduce, priority_is_the_first_use_in_forward) {
  const Insertion made =
      insert_all_reduce(test::chain_of_equal(3, 4, 1), with(Strategy::compute_communication_overlap));
  std::vector<std::int64_t> priorities;
  for (const Node* node : collectives_of(made.graph))
    priorities.push_back(node->attribute_or<std::int64_t>("priority", -1));
  EXPECT_THAT(priorities, ElementsAre(2, 1, 0));
}

TEST(InsertAllReduce, tells_every_decision) {
  const Insertion made = insert_all_reduce(test::chain_of_equal(2, 4, 1), with(Strategy::synchronous));
  ASSERT_EQ(made.decisions.size(), 3U);
  EXPECT_THAT(made.decisions[0], HasSubstr("gradient g1 of w1: 16 bytes"));
  EXPECT_THAT(made.decisions[2], HasSubstr("bucket 0: 2 gradients, 32 bytes, behind node 5"));
}

TEST(InsertAllReduce, the_same_graph_gives_the_same_plan) {
  const Graph graph = test::chain_of_equal(20, 100, 3);
  const Insertion one = insert_all_reduce(graph, with(Strategy::smart_overlap));
  const Insertion other = insert_all_reduce(graph, with(Strategy::smart_overlap));
  EXPECT_EQ(one.plan.hash(), other.plan.hash());
  EXPECT_EQ(to_json(one.graph), to_json(other.graph));
}

}  // namespace
}  // namespace cohort::graph::insert_all_reduce_test
