// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/compressor.h>

#include <cohort/graph/compression/decision.h>
#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/tests/graph/networks.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace cohort::graph::compressor_test {
namespace {

using ::testing::HasSubstr;

constexpr Rank kRanks = 4;
constexpr std::size_t kElements = 3000;  // no multiple of blocks or ranks
constexpr CompressionKind kAll[] = {CompressionKind::fp16, CompressionKind::bf16, CompressionKind::int8,
                                    CompressionKind::top_k, CompressionKind::power_sgd};

std::vector<float> gradient_of(Rank rank, unsigned step = 0) {
  std::mt19937 random(1000 * step + rank + 1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(kElements);
  for (float& value : values) value = normal(random);
  return values;
}

double norm(std::span<const float> values) {
  double square = 0;
  for (const float value : values) square += static_cast<double>(value) * value;
  return std::sqrt(square);
}

double distance(std::span<const float> one, std::span<const float> other) {
  std::vector<float> difference(one.begin(), one.end());
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= other[i];
  return norm(difference);
}

Task<> expect_same_bits(Communicator& comm, std::span<const float> mine) {
  std::vector<float> all(mine.size() * comm.size());
  co_await comm.all_gather(mine, all);
  for (Rank rank = 1; rank < comm.size(); ++rank)
    EXPECT_EQ(std::memcmp(all.data(), all.data() + rank * mine.size(), mine.size_bytes()), 0);
}

std::vector<float> exact_sum() {
  std::vector<float> sum(kElements, 0.0F);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> one = gradient_of(rank);
    for (std::size_t i = 0; i < kElements; ++i) sum[i] += one[i];
  }
  return sum;
}

Task<> check_same_on_all(Communicator& comm) {
  for (const CompressionKind kind : kAll)
    for (const bool averages : {false, true}) {
      const auto compressor = Compressor::make({.kind = kind, .top_ratio = 0.3, .rank = 8});
      for (unsigned step = 0; step < 3; ++step) {
        std::vector<float> data = gradient_of(comm.rank(), step);
        co_await compressor->reduce(comm, "g", data, averages);
        co_await expect_same_bits(comm, data);
      }
    }
}

TEST(Compressor, all_ranks_get_the_same_bits) { test::run_ranks(kRanks, check_same_on_all); }

/// Half a scale of each rank, and half of the sum's.
Task<> check_bound(Communicator& comm) {
  const std::vector<float> sum = exact_sum();
  std::vector<float> data = gradient_of(comm.rank());
  const auto compressor = Compressor::make({.kind = CompressionKind::int8});
  co_await compressor->reduce(comm, "g", data, false);
  float most = 0;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> one = gradient_of(rank);
    for (const float scale : quantise(one).scales) most = std::max(most, scale);
  }
  float most_of_sum = 0;
  for (const float value : sum) most_of_sum = std::max(most_of_sum, std::abs(value));
  const float bound = kRanks * most / 2 + (most_of_sum + kRanks * most) / 127 / 2;
  for (std::size_t i = 0; i < kElements; ++i) EXPECT_LE(std::abs(data[i] - sum[i]), bound * 1.0001F);
  EXPECT_GT(distance(data, sum), 0);
}

TEST(Compressor, int8_is_within_its_bound) { test::run_ranks(kRanks, check_bound); }

/// All of these are whole numbers of a block's scale, so that nothing rounds, wherever pieces end.
Task<> check_pieces(Communicator& comm) {
  const auto compressor = Compressor::make({.kind = CompressionKind::int8});
  std::vector<float> expected(std::size_t{3} << 19U);
  expected.resize(expected.size() + 1023);  // of which no block lacks 127
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(i * 37 % 255) - 127;
  std::vector<float> data = expected;
  co_await compressor->reduce(comm, "g", data, true);
  EXPECT_EQ(data, expected);
  for (float& value : data) value = value * static_cast<float>(comm.rank());
  co_await compressor->reduce(comm, "g", data, false);
  EXPECT_EQ(data, expected);  // what rank 1 gave
}

TEST(Compressor, many_values_go_in_pieces) { test::run_ranks(2, check_pieces); }

TEST(Quantise, each_value_is_within_half_a_scale) {
  const std::vector<float> values = gradient_of(0);
  const Quantised packed = quantise(values);
  std::vector<float> again(kElements, 0.0F);
  add_dequantised(packed.numbers, packed.scales, again);
  for (std::size_t i = 0; i < kElements; ++i)
    EXPECT_LE(std::abs(again[i] - values[i]), packed.scales[i / kQuantisedBlock] * 0.5001F);
  const std::vector<float> zeros(300, 0.0F);
  EXPECT_THAT(quantise(zeros).numbers, ::testing::Each(0));
}

/// A compressor loses less than there is: what error feedback needs.
Task<> check_contraction(Communicator& comm) {
  for (const CompressionKind kind : kAll) {
    const auto compressor = Compressor::make({.kind = kind, .has_error_feedback = false, .top_ratio = 0.1});
    const std::vector<float> before = gradient_of(0);
    std::vector<float> data = before;
    co_await compressor->reduce(comm, "g", data, true);
    EXPECT_LT(distance(data, before), norm(before)) << to_string(kind);
    EXPECT_TRUE(compressor->state().empty() || kind == CompressionKind::power_sgd) << to_string(kind);
  }
}

TEST(Compressor, loses_less_than_there_is) { test::run_ranks(1, check_contraction); }

/// With the same gradients every step, what all steps bring is what they should but for one residual.
Task<> check_feedback(Communicator& comm) {
  const std::vector<float> sum = exact_sum();
  constexpr unsigned kSteps = 60;
  for (const CompressionKind kind : kAll) {
    const auto compressor = Compressor::make({.kind = kind, .top_ratio = 0.1, .rank = 4});
    std::vector<float> brought(kElements, 0.0F);
    double first = 0;
    for (unsigned step = 0; step < kSteps; ++step) {
      std::vector<float> data = gradient_of(comm.rank());
      co_await compressor->reduce(comm, "g", data, false);
      for (std::size_t i = 0; i < kElements; ++i) brought[i] += data[i] / kSteps;
      if (step == 0) first = distance(data, sum);
    }
    EXPECT_LT(distance(brought, sum), first * 0.6 + 1e-4) << to_string(kind);
    EXPECT_LT(distance(brought, sum), 0.5 * norm(sum)) << to_string(kind);
  }
}

TEST(Compressor, error_feedback_brings_later_what_was_not_sent) { test::run_ranks(kRanks, check_feedback); }

Task<> check_restored(Communicator& comm) {
  for (const CompressionKind kind : kAll) {
    const CompressionOptions options{.kind = kind, .top_ratio = 0.1, .momentum = 0.9};
    const auto running = Compressor::make(options);
    std::vector<float> data = gradient_of(comm.rank());
    co_await running->reduce(comm, "g", data, true);
    const auto restored = Compressor::make(options);
    restored->restore(running->state());
    std::vector<float> one = gradient_of(comm.rank(), 1);
    std::vector<float> other = one;
    co_await running->reduce(comm, "g", one, true);
    co_await restored->reduce(comm, "g", other, true);
    EXPECT_EQ(one, other) << to_string(kind);
  }
}

TEST(Compressor, goes_on_from_a_checkpoint) { test::run_ranks(2, check_restored); }

/// A rank's gradient overflows in one step: all ranks see that in its result, and none in later ones.
Task<> check_overflow(Communicator& comm) {
  constexpr std::size_t kBad = 300;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  for (const CompressionKind kind : kAll)
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const auto compressor = Compressor::make(
          {.kind = kind, .top_ratio = 0.1, .momentum = kind == CompressionKind::top_k ? 0.9 : 0});
      for (unsigned step = 0; step < 4; ++step) {
        std::vector<float> data = gradient_of(comm.rank(), step);
        if (step == 1 && comm.rank() == 1) data[kBad] = bad;
        co_await compressor->reduce(comm, "g", data, true);
        EXPECT_EQ(std::ranges::all_of(data, is_finite), step != 1) << to_string(kind) << " step " << step;
        EXPECT_TRUE(step == 1 || norm(data) > 0) << to_string(kind);
        for (const auto& [name, values] : compressor->state())
          EXPECT_TRUE(std::ranges::all_of(values, is_finite)) << name;
      }
    }
}

TEST(Compressor, an_overflow_is_over_with_its_step) { test::run_ranks(2, check_overflow); }

TEST(Quantise, a_block_that_is_not_finite_stands_for_nothing_else) {
  std::vector<float> values(2 * kQuantisedBlock, 1.0F);
  values[3] = std::nanf("");
  const Quantised packed = quantise(values);
  std::vector<float> again(values.size(), 0.0F);
  add_dequantised(packed.numbers, packed.scales, again);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(again[i]), i < kQuantisedBlock) << i;
}

TEST(CompressionDecision, is_refused_with_both_numbers_where_it_does_not_pay) {
  const auto int8 = Compressor::make({.kind = CompressionKind::int8});
  const Cost slow = Cost::of(LinearCost{.idle_us = 100, .queued_us = 100, .byte_us = 0.01});
  const Cost fast = Cost::of(LinearCost{.idle_us = 10, .queued_us = 10, .byte_us = 0.0001});
  const CompressionDecision pays = decide(*int8, slow, 1'000'000, 4, 0.002);
  EXPECT_TRUE(pays.pays);
  EXPECT_NEAR(pays.plain_us, 40'100, 1e-6);
  const CompressionDecision refused = decide(*int8, fast, 1'000'000, 4, 0.002);
  EXPECT_FALSE(refused.pays);
  EXPECT_THAT(refused.text(), HasSubstr("refused: "));
  EXPECT_THAT(refused.text(), HasSubstr("410.0 us as it is"));
}

TEST(CompressionDecision, kinds_have_names_and_fewer_bytes) {
  for (const CompressionKind kind : kAll) {
    EXPECT_EQ(parse_compression(to_string(kind)), kind);
    EXPECT_LT(Compressor::make({.kind = kind})->equivalent_bytes(1'000'000, 4), 4'000'000U)
        << to_string(kind);
  }
  EXPECT_EQ(parse_compression("zip"), std::nullopt);
}

/// An executor whose link is so slow that all buckets are compressed, and one where none is.
Task<> check_in_executor(Communicator& comm) {
  Kernels kernels;
  for (const char* op : {"layer", "loss"}) kernels.set(op, [](const NodeCall&) {});
  const Rank rank = comm.rank();
  kernels.set("layer_grad", [rank](const NodeCall& call) {
    std::ranges::fill(call.output<float>(0), static_cast<float>(rank + 1));
  });
  kernels.set("sgd", [](const NodeCall& call) {
    for (std::size_t i = 0; i < call.input<float>(0).size(); ++i)
      call.input<float>(0)[i] = call.input<float>(1)[i];
  });
  for (const double byte_us : {1.0, 1e-9}) {
    BucketCompression compression({.kind = CompressionKind::int8},
                                  Cost::of(LinearCost{.idle_us = 1, .queued_us = 1, .byte_us = byte_us}),
                                  kRanks, 0.01);
    const Graph graph = insert_all_reduce(test::chain_of_equal(2, 5000, 1), {}).graph;
    Executor executor(comm, graph, kernels, compression.executor_options());
    co_await executor.prepare();
    co_await executor.run_step();
    EXPECT_THAT(executor.tensor<float>("w0"), ::testing::Each(::testing::FloatNear(2.5F, 0.03F)));
    EXPECT_EQ(compression.compressor().state().empty(), byte_us < 1);
  }
  const CompressionOptions bf16{.kind = CompressionKind::bf16};
  const double work = co_await measure_work(comm, bf16, 10'000);
  EXPECT_GT(work, 0);
}

TEST(BucketCompression, compresses_in_an_executor_where_it_pays) {
  test::run_ranks(kRanks, check_in_executor);
}

}  // namespace
}  // namespace cohort::graph::compressor_test
