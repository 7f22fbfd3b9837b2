// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/planned_training.h>

#include <cohort/graph/planner/rules.h>
#include <cohort/graph/timeline/median.h>
#include <cohort/tests/graph/networks.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>

namespace cohort::graph::planned_training_test {
namespace {

using ::testing::HasSubstr;

constexpr Rank kRanks = 4;

/// Nodes sleep as long as the graph says, times `slower`.
Kernels sleeping_kernels(Engine& engine, const double& slower) {
  Kernels kernels;
  for (const char* op : {"layer", "loss", "layer_grad", "sgd"})
    kernels.set_async(op, [&engine, &slower](const NodeCall& call) -> Task<> {
      const Duration takes = std::chrono::microseconds(std::lround(call.node().duration_us * slower));
      co_await engine.sleep_for(takes);
    });
  return kernels;
}

Graph network() {
  return test::chain_of(
      {{40'000, 50, 100}, {300'000, 300, 600}, {2'000, 20, 40}, {2'000, 20, 40}, {80'000, 90, 200}});
}

Task<> expect_same_on_all(Communicator& comm, std::uint64_t value) {
  const std::uint64_t least = co_await comm.all_reduce(value, ReduceOp::min);
  const std::uint64_t most = co_await comm.all_reduce(value, ReduceOp::max);
  EXPECT_EQ(least, most);
}

/// Rank 1 takes twice as long as the others, and later all take three times as long.
Task<> train(Communicator& comm) {
  double slower = comm.rank() == 1 ? 2 : 1;
  const Kernels kernels = sleeping_kernels(comm.engine(), slower);
  PlannedTraining training(comm, network(), kernels);
  co_await training.prepare();
  for (int step = 0; step < 60; ++step) {
    const Timeline timeline = co_await training.run_step();
    co_await expect_same_on_all(comm, training.insertion().plan.hash());
    for (const Span& span : timeline.spans)  // also of a step behind which there is another plan
      EXPECT_EQ(training.last_graph().node(span.node).kind, span.kind);
  }
  EXPECT_EQ(training.stage(), PlannedTraining::Stage::settled);
  EXPECT_GE(training.plans(), 1U);
  EXPECT_LE(training.plans(), 3U);
  const std::string text = training.explain();
  EXPECT_THAT(text, HasSubstr("by optimum"));
  EXPECT_THAT(text, HasSubstr("measured:  ends at"));
  // What the slowest rank measures is what all plan by.
  for (const Item& item : training.insertion().plan.items)
    if (item.name == "g4") {
      EXPECT_GE(item.ready_us, 2 * (50 + 300 + 20 + 20 + 90 + 200));
    }

  const unsigned before = training.plans();
  slower *= 3;
  unsigned steps = 0;
  while (training.plans() == before && steps < 60) {
    co_await training.run_step();
    ++steps;
  }
  EXPECT_GT(training.plans(), before) << "a change was not seen within " << steps << " steps";
  EXPECT_LE(steps, 51U);
}

TEST(PlannedTraining, one_plan_on_all_ranks_and_another_one_when_things_change) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  test::run_ranks_in_world(kRanks, train, tcp, kRanks);
}

Task<> stay_settled(Communicator& comm) {
  const double slower = 1;
  const Kernels kernels = sleeping_kernels(comm.engine(), slower);
  PlannedTraining training(comm, network(), kernels);
  co_await training.prepare();
  for (int step = 0; step < 200; ++step) co_await training.run_step();
  EXPECT_LE(training.plans(), 3U) << "nothing changed";
}

TEST(PlannedTraining, while_nothing_changes_the_plan_stays) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  test::run_ranks_in_world(2, stay_settled, tcp, 2);
}

/// When the last bucket was reduced, on the last rank: the median of some steps.
Task<double> end_of(Communicator& comm, const Graph& graph, const Kernels& kernels) {
  Executor executor(comm, graph, kernels);
  co_await executor.prepare();
  std::vector<double> ends;
  for (int step = 0; step < 5; ++step) {
    co_await comm.barrier();
    const Timeline timeline = co_await executor.run_step();
    ends.push_back(summarize(graph, timeline).communication_end_us);
  }
  const double mine = median(ends);
  const double last = co_await comm.all_reduce(mine, ReduceOp::max);
  co_return last;
}

/// The planner's buckets and those of every other rule, by the same executor, ready times and cost.
Task<> replay(Communicator& comm) {
  const double slower = 1;
  const Kernels kernels = sleeping_kernels(comm.engine(), slower);
  const Graph graph = network();
  InsertOptions options;
  const MeasureOptions usual;
  const LinearCost line = co_await measure_cost(comm, usual);
  options.cost = Cost::of(line);
  const Insertion planned = insert_all_reduce(graph, options);
  const double end = co_await end_of(comm, planned.graph, kernels);
  const double allowed = std::max(0.1 * planned.plan.finish_us, 2000.0);
  EXPECT_NEAR(end, planned.plan.finish_us, allowed);
  for (const Plan& other : rules_of_others(planned.plan.items, options.cost)) {
    options.rule = [&other](std::vector<Item>, const Cost&) { return other; };
    const Insertion replayed = insert_all_reduce(graph, options);
    const double end_of_other = co_await end_of(comm, replayed.graph, kernels);
    EXPECT_LE(end, 1.02 * end_of_other) << other.rule;
  }
}

TEST(PlannedTraining, no_rule_of_others_ends_earlier_on_the_same_executor) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  test::run_ranks_in_world(kRanks, replay, tcp, kRanks);
}

Task<> measure(Communicator& comm) {
  const MeasureOptions usual;
  const LinearCost line = co_await measure_cost(comm, usual);
  EXPECT_GT(line.idle_us, 0);
  EXPECT_GT(line.byte_us, 0);
  EXPECT_LE(line.queued_us, line.idle_us + 1e-9);
  co_await expect_same_on_all(comm, std::bit_cast<std::uint64_t>(line.byte_us));
  const std::optional<Cost> model = co_await model_cost(comm, usual);
  EXPECT_TRUE(model.has_value()) << "over tcp there is one";
  if (model) {
    EXPECT_GT(model->idle(1 << 20), model->idle(4096));
  }
}

TEST(MeasuredCost, is_the_same_on_all_ranks_and_grows_with_bytes) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  test::run_ranks_in_world(kRanks, measure, tcp, kRanks);
}

}  // namespace
}  // namespace cohort::graph::planned_training_test
