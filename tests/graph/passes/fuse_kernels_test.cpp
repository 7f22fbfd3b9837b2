// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/fuse_kernels.h>

#include <cohort/graph/verify.h>
#include <cohort/tests/graph/networks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::graph::fuse_kernels_test {
namespace {

using ::testing::ElementsAre;

/// x -> relu -> (+ b) -> scale -> out, each of so many elements.
Graph elementwise_chain() {
  Graph graph;
  const auto add = [&](const char* name, TensorRole role = TensorRole::activation) {
    return graph.add_tensor({.name = name, .shape = {10}, .role = role});
  };
  const TensorId x = add("x", TensorRole::input);
  const TensorId b = add("b", TensorRole::parameter);
  const TensorId first = add("first");
  const TensorId second = add("second");
  const TensorId out = add("out");
  graph.add_node({.name = "relu", .op = "relu", .inputs = {x}, .outputs = {first}, .duration_us = 1});
  graph.add_node({.name = "add", .op = "add", .inputs = {b, first}, .outputs = {second}, .duration_us = 2});
  graph.add_node({.name = "scale", .op = "scale", .inputs = {second}, .outputs = {out}, .duration_us = 3});
  return graph;
}

TEST(FuseKernels, makes_one_node_of_a_chain) {
  const Graph graph = fuse_kernels(elementwise_chain());
  verify(graph);
  ASSERT_EQ(graph.order().size(), 1U);
  const Node& node = graph.node(graph.order()[0]);
  EXPECT_EQ(node.op, "fused");
  EXPECT_EQ(node.duration_us, 6);
  EXPECT_EQ(node.attribute_or<std::string>("ops", ""), "relu;add;scale");
  EXPECT_EQ(node.attribute_or<std::int64_t>("saved_bytes", 0), 160);
  EXPECT_EQ(graph.tensor_count(), 3U);
  const std::vector<FusedStep> steps = steps_of(node);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_THAT(steps[0].operands, ElementsAre(0));
  EXPECT_THAT(steps[1].operands, ElementsAre(1, kPrevious));
  EXPECT_THAT(steps[2].operands, ElementsAre(kPrevious));
}

TEST(FuseKernels, a_result_that_two_read_is_kept) {
  Graph graph = elementwise_chain();
  graph.add_node({.name = "other", .op = "x", .inputs = {*graph.find_tensor("second")}});
  const Graph fused = fuse_kernels(graph);
  verify(fused);
  EXPECT_EQ(fused.order().size(), 3U);
  EXPECT_TRUE(fused.find_tensor("second"));
  EXPECT_FALSE(fused.find_tensor("first"));
}

TEST(FuseKernels, gradients_and_other_phases_stay) {
  Graph graph = elementwise_chain();
  graph.tensor(*graph.find_tensor("first")).gradient_of = graph.find_tensor("b");
  graph.node(*graph.find_node("scale")).phase = Phase::backward;
  EXPECT_EQ(fuse_kernels(graph).order().size(), 3U);
}

TEST(FuseKernels, what_is_not_elementwise_stays) {
  const Graph graph = test::chain_of_equal(3, 4, 1);
  EXPECT_EQ(fuse_kernels(graph).order().size(), graph.order().size());
}

TEST(FuseKernels, steps_that_do_not_fit_are_refused) {
  Graph graph = fuse_kernels(elementwise_chain());
  Node& node = graph.node(graph.order()[0]);
  node.attributes["operands"] = std::vector<std::int64_t>{1, 7};
  EXPECT_THROW((void)steps_of(node), GraphError);
  node.attributes.erase("ops");
  EXPECT_THROW((void)steps_of(node), GraphError);
}

}  // namespace
}  // namespace cohort::graph::fuse_kernels_test
