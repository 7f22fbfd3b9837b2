// SPDX-License-Identifier: Apache-2.0
// What planning costs: the optimum for so many gradients, with and without limits, and the square programme.
#include <cohort/graph/planner/planner.h>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

namespace cohort::graph {
namespace {

std::vector<Item> gradients(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<Item> items;
  items.reserve(count);
  double ready = 0;
  for (std::size_t i = 0; i < count; ++i) {
    items.push_back({.name = "g", .ready_us = ready, .bytes = 4 * (random() % (1U << 20U))});
    ready += static_cast<double>(random() % 1000);
  }
  return items;
}

constexpr LinearCost kLine{.idle_us = 80, .queued_us = 30, .byte_us = 2e-4};

void plan_gradients(benchmark::State& state) {
  const std::vector<Item> items = gradients(static_cast<std::size_t>(state.range(0)));
  for (auto iteration : state) benchmark::DoNotOptimize(plan_linear(items, kLine).finish_us);
}
BENCHMARK(plan_gradients)->Arg(100)->Arg(1000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void plan_gradients_within_limits(benchmark::State& state) {
  const std::vector<Item> items = gradients(static_cast<std::size_t>(state.range(0)));
  const Limits limits{.bucket_bytes = 25U << 20U, .min_tensor_bytes = 1U << 20U, .max_group_size = 8};
  for (auto iteration : state) benchmark::DoNotOptimize(plan_linear(items, kLine, limits).finish_us);
}
BENCHMARK(plan_gradients_within_limits)->Arg(100'000)->Unit(benchmark::kMillisecond);

void plan_gradients_of_any_cost(benchmark::State& state) {
  const std::vector<Item> items = gradients(static_cast<std::size_t>(state.range(0)));
  const Cost cost = Cost::of(kLine);
  for (auto iteration : state) benchmark::DoNotOptimize(plan_any(items, cost).finish_us);
}
BENCHMARK(plan_gradients_of_any_cost)->Arg(2000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cohort::graph
