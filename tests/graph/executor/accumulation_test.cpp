// SPDX-License-Identifier: Apache-2.0
// Gradients of several steps, clipped and scaled ones, as an executor runs them.
#include <cohort/graph/executor/executor.h>
#include <cohort/graph/passes/clip_gradients.h>
#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/tests/graph/networks.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cohort::graph::accumulation_test {
namespace {

using ::testing::Each;
using ::testing::FloatNear;

constexpr Rank kRanks = 4;

/// Each gradient is `value` everywhere; an update leaves what it got in the parameter.
Kernels kernels_of(const float& value) {
  Kernels kernels;
  for (const char* op : {"layer", "loss"}) kernels.set(op, [](const NodeCall&) {});
  kernels.set("layer_grad",
              [&value](const NodeCall& call) { std::ranges::fill(call.output<float>(0), value); });
  kernels.set("sgd", [](const NodeCall& call) {
    std::ranges::copy(call.input<float>(1), call.input<float>(0).begin());
  });
  return kernels;
}

std::size_t collectives_in(const Timeline& timeline) {
  return static_cast<std::size_t>(std::ranges::count(timeline.spans, NodeKind::collective, &Span::kind));
}

Task<> accumulate(Communicator& comm, const InsertOptions& options) {
  float value = 0;
  Executor executor(comm, insert_all_reduce(test::chain_of_equal(3, 50, 1), options).graph,
                    kernels_of(value));
  co_await executor.prepare();
  for (int round = 0; round < 2; ++round) {
    for (int step = 1; step <= 3; ++step) {
      value = static_cast<float>(step * static_cast<int>(comm.rank() + 1));
      const Timeline timeline = co_await executor.accumulate_step();
      EXPECT_EQ(collectives_in(timeline), 0U);
    }
    value = 4.0F * static_cast<float>(comm.rank() + 1);
    const Timeline timeline = co_await executor.run_step();
    EXPECT_GT(collectives_in(timeline), 0U);
    for (int i = 0; i < 3; ++i)  // (1 + 2 + 3 + 4) times the mean of 1 to 4
      EXPECT_THAT(executor.tensor<float>(fmt::format("w{}", i)), Each(25.0F));
  }
}

TEST(Accumulation, four_steps_are_reduced_once) {
  InsertOptions flat;
  InsertOptions shares;
  shares.strategy = Strategy::hierarchical;
  InsertOptions pieces;
  pieces.strategy = Strategy::compute_communication_overlap;
  pieces.split_bytes = 64;
  for (const InsertOptions& options : {flat, shares, pieces})
    test::run_ranks(
        kRanks, [&](Communicator& comm) { return accumulate(comm, options); }, {}, 2);
}

Task<> clip(Communicator& comm) {
  float value = 0;
  const Graph reduced = insert_all_reduce(test::chain_of_equal(4, 100, 1), {}).graph;
  Executor executor(comm, clip_gradients(reduced, 10), kernels_of(value));
  co_await executor.prepare();
  value = 3;  // a norm of 60
  co_await executor.run_step();
  EXPECT_FLOAT_EQ(executor.tensor<float>(kGradientNorm)[0], 60);
  EXPECT_THAT(executor.tensor<float>("w2"), Each(FloatNear(0.5F, 1e-6F)));
  value = 0.25F;  // a norm of 5
  co_await executor.run_step();
  EXPECT_THAT(executor.tensor<float>("w2"), Each(0.25F));

  executor.tensor<float>(kLossScale)[0] = 1024;
  value = 256;
  co_await executor.run_step();
  EXPECT_THAT(executor.tensor<float>("w0"), Each(0.25F));
  EXPECT_EQ(executor.tensor<float>(kOverflow)[0], 0);
  value = comm.rank() == 2 ? std::numeric_limits<float>::infinity() : 1;
  co_await executor.run_step();
  EXPECT_EQ(executor.tensor<float>(kOverflow)[0], 1) << "on every rank";
  EXPECT_THAT(executor.tensor<float>("w0"), Each(0.0F));
}

TEST(ClipGradients, by_the_norm_of_all_and_by_the_loss_scale) { test::run_ranks(kRanks, clip); }

TEST(ClipGradients, needs_reduced_gradients) {
  EXPECT_THROW((void)clip_gradients(test::chain_of_equal(1, 4, 1), 1), GraphError);
}

TEST(LossScaler, halves_after_an_overflow_and_doubles_after_many_good_steps) {
  LossScaler scaler(1024, 3);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 512);
  for (int i = 0; i < 3; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1024);
  for (int i = 0; i < 50; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace cohort::graph::accumulation_test
