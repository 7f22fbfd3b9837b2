// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/executor.h>

#include <cohort/graph/passes/fuse_kernels.h>
#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/graph/passes/save_memory.h>
#include <cohort/graph/timeline/predict.h>
#include <cohort/tests/graph/networks.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace cohort::graph::executor_test {
namespace {

using ::testing::HasSubstr;

constexpr Rank kRanks = 4;
constexpr std::size_t kLayers = 5;

/// Gradient i of rank r is (r + 1) * (i + 1) everywhere; an update takes it from the parameter.
Kernels kernels_of(Rank rank) {
  Kernels kernels;
  const auto fill = [](std::span<float> out, float value) { std::ranges::fill(out, value); };
  kernels.set("layer", [fill](const NodeCall& call) { fill(call.output<float>(0), 1); });
  kernels.set("loss", [fill](const NodeCall& call) { fill(call.output<float>(0), 1); });
  kernels.set("layer_grad", [fill, rank](const NodeCall& call) {
    const auto layer = static_cast<float>(std::stoi(call.node().name.substr(4)) + 1);
    fill(call.output<float>(0), static_cast<float>(rank + 1) * layer);
    fill(call.output<float>(1), 1);
  });
  kernels.set("sgd", [](const NodeCall& call) {
    const std::span<float> weights = call.input<float>(0);
    const std::span<const float> gradient = call.input<float>(1);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= gradient[i];
  });
  return kernels;
}

Graph network() {
  std::vector<test::Layer> layers;
  for (std::size_t i = 0; i < kLayers; ++i) layers.push_back({static_cast<std::int64_t>(37 * i + 1), 5, 10});
  return test::chain_of(layers);
}

Graph with_collectives(InsertOptions options) {
  options.cost = Cost::of(LinearCost{10, 5, 0.01});
  return insert_all_reduce(network(), options).graph;
}

/// After a step each parameter is minus the mean of the ranks' gradients: all are exact in floats.
Task<> check_steps(Communicator& comm, const InsertOptions& options) {
  Executor executor(comm, with_collectives(options), kernels_of(comm.rank()));
  co_await executor.prepare();
  const float mean = options.reduction == ReduceOp::avg ? 2.5F : 10.0F;
  for (int step = 1; step <= 3; ++step) {
    const Timeline timeline = co_await executor.run_step();
    EXPECT_EQ(timeline.spans.size(), executor.graph().order().size());
    for (std::size_t i = 0; i < kLayers; ++i)
      EXPECT_THAT(executor.tensor<float>(fmt::format("w{}", i)),
                  ::testing::Each(-mean * static_cast<float>(i + 1) * static_cast<float>(step)));
  }
}

TEST(Executor, every_strategy_gives_the_same_parameters) {
  for (const Strategy strategy : {Strategy::synchronous, Strategy::compute_communication_overlap,
                                  Strategy::hierarchical, Strategy::smart_overlap}) {
    InsertOptions options;
    options.strategy = strategy;
    test::run_ranks(kRanks, [&](Communicator& comm) { return check_steps(comm, options); });
  }
}

TEST(Executor, hosts_first_by_shares_and_by_leaders) {
  for (const ReduceForm form : {ReduceForm::shares, ReduceForm::leader})
    for (const ReduceOp reduction : {ReduceOp::avg, ReduceOp::sum}) {
      InsertOptions options;
      options.strategy = Strategy::hierarchical;
      options.form = form;
      options.reduction = reduction;
      test::run_ranks(
          kRanks, [&](Communicator& comm) { return check_steps(comm, options); }, {}, 2);
    }
}

TEST(Executor, gradients_in_pieces_and_in_buckets_of_any_size) {
  for (const std::uint64_t bytes : {4U, 100U, 300U}) {
    InsertOptions options;
    options.strategy = Strategy::compute_communication_overlap;
    options.limits.bucket_bytes = bytes;
    options.split_bytes = bytes;
    test::run_ranks(kRanks, [&](Communicator& comm) { return check_steps(comm, options); });
  }
}

TEST(Executor, over_tcp_too) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  const InsertOptions options;
  test::run_ranks(
      kRanks, [&](Communicator& comm) { return check_steps(comm, options); }, tcp);
}

Task<> check_other_plans(Communicator& comm) {
  InsertOptions options;
  options.strategy = comm.rank() == 2 ? Strategy::synchronous : Strategy::compute_communication_overlap;
  Executor executor(comm, with_collectives(options), kernels_of(comm.rank()));
  const auto error = co_await test::error_of(executor.prepare());
  EXPECT_TRUE(error.has_value());
  if (!error) co_return;
  EXPECT_EQ(error->kind(), ErrorKind::Mismatch);
  EXPECT_EQ(error->culprit(), 2U);
}

TEST(Executor, a_rank_with_another_plan_is_named_on_all) { test::run_ranks(kRanks, check_other_plans); }

Task<> fail_in_a_kernel(Communicator& comm) {
  Kernels kernels = kernels_of(comm.rank());
  if (comm.rank() == 1)
    kernels.set("layer_grad", [](const NodeCall&) { throw std::runtime_error("planted"); });
  Executor executor(comm, with_collectives({}), kernels);
  co_await executor.prepare();
  co_await executor.run_step();
}

TEST(Executor, a_kernel_that_throws_ends_the_step_on_all_ranks) {
  const auto outcomes = test::outcomes_of_ranks(kRanks, fail_in_a_kernel);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(outcomes[rank].error.has_value()) << "rank " << rank;
    EXPECT_THAT(outcomes[rank].error->what(), HasSubstr("planted")) << "rank " << rank;
  }
}

Task<> name_what_is_missing(Communicator& comm) {
  EXPECT_THROW(Executor(comm, network(), Kernels()), GraphError);
  Executor executor(comm, network(), kernels_of(0));
  EXPECT_THROW((void)executor.tensor<float>("nobody"), GraphError);
  EXPECT_THROW(Executor(comm, network(), kernels_of(0), ExecutorOptions{.memory_budget_bytes = 100}),
               GraphError);
  co_return;
}

TEST(Executor, names_a_missing_kernel_and_too_little_memory) { test::run_ranks(1, name_what_is_missing); }

/// Nodes sleep on the virtual clock as long as the graph says.
Task<> check_overlap(Communicator& comm) {
  Kernels kernels;
  Engine& engine = comm.engine();
  for (const char* op : {"layer", "loss", "layer_grad", "sgd"})
    kernels.set_async(op, [&engine](const NodeCall& call) -> Task<> {
      const Duration takes = std::chrono::microseconds(static_cast<long>(call.node().duration_us));
      co_await engine.sleep_for(takes);
    });
  InsertOptions options;
  options.strategy = Strategy::compute_communication_overlap;
  const Graph graph = insert_all_reduce(test::chain_of_equal(4, 250'000, 10'000), options).graph;
  Executor executor(comm, graph, kernels);
  co_await executor.prepare();
  const Timeline timeline = co_await executor.run_step();
  const Summary summary = summarize(graph, timeline);
  EXPECT_GE(summary.compute_us, 80'000);
  EXPECT_GT(summary.communication_us, 0);
  EXPECT_LT(summary.exposed_us, summary.communication_us) << summary.text();
  for (const Span& span : timeline.spans)
    if (span.kind == NodeKind::collective) {
      const TensorId input = graph.node(span.node).inputs.front();
      const NodeId producer = *Dependencies(graph).producer(input);
      const auto made = std::ranges::find(timeline.spans, producer, &Span::node);
      EXPECT_GE(span.begin_us, made->end_us);
    }
}

TEST(Executor, collectives_run_beside_compute_and_behind_their_gradients) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  test::run_ranks_in_world(kRanks, check_overlap, tcp, kRanks);
}

/// x -> relu -> add -> out, fused or not.
Task<> check_fused(Communicator& comm) {
  Graph graph;
  const auto add = [&](const char* name, TensorRole role = TensorRole::activation) {
    return graph.add_tensor({.name = name, .shape = {5000}, .role = role});
  };
  const TensorId x = add("x", TensorRole::input);
  const TensorId b = add("b", TensorRole::parameter);
  const TensorId first = add("first");
  const TensorId second = add("second");
  const TensorId out = add("out", TensorRole::loss);
  graph.add_node({.name = "relu", .op = "relu", .inputs = {x}, .outputs = {first}});
  graph.add_node({.name = "add", .op = "add", .inputs = {b, first}, .outputs = {second}});
  graph.add_node({.name = "mul", .op = "mul", .inputs = {second, b}, .outputs = {out}});
  const Graph fused = fuse_kernels(graph);
  EXPECT_EQ(fused.order().size(), 1U);
  for (const Graph& each : {graph, fused}) {
    Executor executor(comm, each, Kernels());
    for (std::size_t i = 0; i < 5000; ++i) {
      executor.tensor<float>("x")[i] = static_cast<float>(i % 7) - 3;
      executor.tensor<float>("b")[i] = static_cast<float>(i % 5);
    }
    co_await executor.prepare();
    co_await executor.run_step();
    for (std::size_t i = 0; i < 5000; ++i) {
      const float in = static_cast<float>(i % 7) - 3;
      const float bias = static_cast<float>(i % 5);
      EXPECT_EQ(executor.tensor<float>("out")[i], ((in > 0 ? in : 0) + bias) * bias);
    }
  }
}

TEST(Executor, a_fused_node_gives_what_its_parts_give) { test::run_ranks(1, check_fused); }

/// The step's results with what is kept, or computed or fetched again.
Task<> check_saved(Communicator& comm) {
  Graph graph = test::chain_of_equal(6, 10, 5);
  for (int i = 1; i < 6; ++i) {
    const TensorId kept = *graph.find_tensor(fmt::format("h{}", i - 1));
    graph.node(*graph.find_node(fmt::format("back{}", i))).inputs.push_back(kept);
  }
  const auto run = [&](const Graph& each) -> Task<std::vector<float>> {
    Kernels kernels = kernels_of(0);
    kernels.set("layer", [](const NodeCall& call) {
      for (std::size_t i = 0; i < 8; ++i) call.output<float>(0)[i] = call.input<float>(0)[i] + 1;
    });
    kernels.set("layer_grad", [](const NodeCall& call) {
      const float kept = call.node().inputs.size() > 2 ? call.input<float>(2)[0] : 0;
      std::ranges::fill(call.output<float>(0), kept);
      std::ranges::fill(call.output<float>(1), 1.0F);
    });
    Executor executor(comm, each, kernels);
    co_await executor.prepare();
    co_await executor.run_step();
    std::vector<float> weights;
    for (int i = 0; i < 6; ++i) weights.push_back(executor.tensor<float>(fmt::format("w{}", i))[0]);
    co_return weights;
  };
  const std::vector<float> expected = co_await run(graph);
  EXPECT_EQ(expected[3], -3);
  const SavedMemory again = checkpoint_activations(graph, 1);
  const SavedMemory outside = offload_activations(graph, 1, 1e9);
  EXPECT_FALSE(again.decisions.empty());
  EXPECT_FALSE(outside.decisions.empty());
  const std::vector<float> recomputed = co_await run(again.graph);
  EXPECT_EQ(recomputed, expected);
  const std::vector<float> fetched = co_await run(outside.graph);
  EXPECT_EQ(fetched, expected);
}

TEST(Executor, saving_memory_changes_no_result) { test::run_ranks(1, check_saved); }

}  // namespace
}  // namespace cohort::graph::executor_test
