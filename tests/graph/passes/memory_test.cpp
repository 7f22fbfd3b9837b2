// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/memory.h>

#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/graph/passes/save_memory.h>
#include <cohort/graph/verify.h>
#include <cohort/tests/graph/networks.h>
#include <cohort/tests/graph/planner/random_items.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::graph::memory_test {
namespace {

using ::testing::HasSubstr;

/// Layers whose results are as large as `bytes` and kept for backward.
Graph with_activations(std::size_t layers, std::int64_t elements, double us = 10) {
  Graph graph = test::chain_of_equal(layers, 4, us);
  for (std::size_t i = 0; i < layers; ++i) {
    const TensorId out = *graph.find_tensor(fmt::format("h{}", i));
    graph.tensor(out).shape = {elements};
    if (i + 1 < layers) graph.node(*graph.find_node(fmt::format("back{}", i + 1))).inputs.push_back(out);
  }
  return graph;
}

/// Any two tensors that are needed at the same time lie apart.
void expect_sound(const Graph& graph, const MemoryPlan& plan) {
  const auto lifetimes = lifetimes_of(graph, Dependencies(graph));
  for (const auto& [one, offset] : plan.arena_offsets) {
    EXPECT_LE(offset + graph.tensor(one).bytes(), plan.arena_bytes);
    for (const auto& [other, place] : plan.arena_offsets) {
      if (one >= other) continue;
      const Lifetime& a = lifetimes.at(one);
      const Lifetime& b = lifetimes.at(other);
      const bool is_together = a.first <= b.last && b.first <= a.last;
      const bool is_apart =
          offset + graph.tensor(one).bytes() <= place || place + graph.tensor(other).bytes() <= offset;
      EXPECT_TRUE(!is_together || is_apart) << graph.tensor(one).name << " and " << graph.tensor(other).name;
    }
  }
}

TEST(Memory, tensors_that_are_not_needed_together_share_it) {
  const Graph graph = test::chain_of_equal(6, 1000, 1);
  const MemoryPlan plan = plan_memory(graph);
  expect_sound(graph, plan);
  EXPECT_GE(plan.arena_bytes, plan.live_bytes);
  EXPECT_LT(plan.peak_bytes(), plan.bytes_without_reuse);
  EXPECT_EQ(plan_memory(graph, false).peak_bytes(), plan.bytes_without_reuse);
}

TEST(Memory, random_graphs_have_sound_plans) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    test::Random random(seed);
    Graph graph;
    std::vector<TensorId> made;
    for (std::uint64_t i = 0; i < 30; ++i) {
      Node node{.name = fmt::format("n{}", i), .op = "x"};
      for (std::uint64_t k = 0; k < 2 && !made.empty(); ++k)
        node.inputs.push_back(made[test::whole(random, 0, made.size() - 1)]);
      made.push_back(graph.add_tensor({.name = fmt::format("t{}", i),
                                       .shape = {static_cast<std::int64_t>(test::whole(random, 0, 500))}}));
      node.outputs = {made.back()};
      graph.add_node(std::move(node));
    }
    expect_sound(graph, plan_memory(graph));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Memory, buckets_are_ranges_and_results_are_where_the_gradients_are) {
  InsertOptions options;
  options.strategy = Strategy::compute_communication_overlap;
  options.limits.max_group_size = 2;
  options.limits.min_tensor_bytes = 1 << 20;
  options.split_bytes = 400;
  const Graph graph = insert_all_reduce(test::chain_of({{300, 1, 1}, {7, 1, 1}, {5, 1, 1}}), options).graph;
  const MemoryPlan plan = plan_memory(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.kind != NodeKind::collective) continue;
    std::uint64_t next = plan.gradient_offsets.at(node.inputs.front());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      EXPECT_EQ(plan.gradient_offsets.at(node.inputs[i]), next);
      EXPECT_EQ(plan.gradient_offsets.at(node.outputs[i]), next);
      next += graph.tensor(node.inputs[i]).bytes();
    }
  }
  EXPECT_EQ(plan.gradient_offsets.at(*graph.find_tensor("g0")),
            plan.gradient_offsets.at(*graph.find_tensor("g0.reduced")));
  EXPECT_EQ(plan.gradient_bytes, 1280U);  // 312 floats, to the next 64 bytes
}

TEST(Memory, too_little_is_named_with_what_would_fit) {
  const Graph graph = with_activations(8, 1000);
  const MemoryPlan plan = plan_memory(graph);
  check_memory(graph, plan, 0);
  check_memory(graph, plan, plan.peak_bytes());
  try {
    check_memory(graph, plan, plan.peak_bytes() - 1);
    FAIL() << "more than there is";
  } catch (const GraphError& error) {
    EXPECT_EQ(error.code(), ErrorCode::memory_overflow);
    EXPECT_EQ(error.kind(), ErrorKind::ResourceLimit);
    EXPECT_THAT(error.node(), HasSubstr("node "));
    EXPECT_THAT(error.advice(), HasSubstr("checkpointing brings it to"));
  }
}

TEST(SaveMemory, checkpointing_computes_again_instead_of_keeping) {
  const Graph graph = with_activations(8, 1000);
  const std::uint64_t before = plan_memory(graph).peak_bytes();
  const SavedMemory saved = checkpoint_activations(graph, before * 7 / 10);
  verify(saved.graph);
  EXPECT_LE(saved.peak_bytes, before * 7 / 10);
  EXPECT_EQ(saved.peak_bytes, plan_memory(saved.graph).peak_bytes());
  EXPECT_EQ(saved.added_us, 10.0 * static_cast<double>(saved.decisions.size()));
  EXPECT_THAT(saved.decisions.front(), HasSubstr("is computed again before"));
}

TEST(SaveMemory, what_has_effects_runs_once) {
  Graph graph = with_activations(4, 1000);
  for (const NodeId id : graph.order()) graph.node(id).attributes["has_effects"] = true;
  EXPECT_TRUE(checkpoint_activations(graph, 1).decisions.empty());
}

TEST(SaveMemory, offloading_copies_out_and_back) {
  const Graph graph = with_activations(8, 1000);
  const std::uint64_t before = plan_memory(graph).peak_bytes();
  const SavedMemory saved = offload_activations(graph, before * 7 / 10, 1e9);
  verify(saved.graph);
  EXPECT_LE(saved.peak_bytes, before * 7 / 10);
  EXPECT_NEAR(saved.added_us, 8.0 * static_cast<double>(saved.decisions.size()), 1e-6);
}

TEST(SaveMemory, a_budget_that_is_kept_changes_nothing) {
  const Graph graph = with_activations(4, 100);
  EXPECT_TRUE(checkpoint_activations(graph, 1 << 20).decisions.empty());
}

}  // namespace
}  // namespace cohort::graph::memory_test
