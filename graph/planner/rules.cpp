// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/rules.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace cohort::graph {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::array<std::uint64_t, 5> kUsualMebibytes = {1, 5, 25, 50, 100};

Plan begun(std::string rule, std::vector<Item> items) {
  return {.rule = std::move(rule), .items = std::move(items)};
}

Plan evaluated(Plan plan, const Cost& cost) {
  evaluate(plan, cost);
  return plan;
}

/// The start-up and slope of a cost that is not linear, at two usual sizes.
LinearCost line_through(const Cost& cost) {
  if (cost.linear) return *cost.linear;
  const std::array<CostPoint, 2> points = {CostPoint{kMebibyte / 16, cost.idle(kMebibyte / 16)},
                                           CostPoint{4 * kMebibyte, cost.idle(4 * kMebibyte)}};
  return fit(points, {});
}

}  // namespace

Plan rule_of_one(std::vector<Item> items, const Cost& cost) {
  Plan plan = begun("one bucket", std::move(items));
  if (!plan.items.empty()) plan.buckets.push_back({.first = 0, .end = plan.items.size()});
  return evaluated(std::move(plan), cost);
}

Plan rule_of_each(std::vector<Item> items, const Cost& cost) {
  Plan plan = begun("each alone", std::move(items));
  for (std::size_t i = 0; i < plan.items.size(); ++i) plan.buckets.push_back({.first = i, .end = i + 1});
  return evaluated(std::move(plan), cost);
}

Plan rule_of_size(std::vector<Item> items, const Cost& cost, std::uint64_t most_bytes,
                  std::uint64_t first_bytes) {
  Plan plan = begun(fmt::format("size {} MiB (DDP)", most_bytes / kMebibyte), std::move(items));
  std::uint64_t bytes = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    bytes += plan.items[i].bytes;
    const std::uint64_t limit = plan.buckets.empty() ? std::min(first_bytes, most_bytes) : most_bytes;
    if (bytes < limit && i + 1 < plan.items.size()) continue;
    plan.buckets.push_back({.first = first, .end = i + 1});
    first = i + 1;
    bytes = 0;
  }
  return evaluated(std::move(plan), cost);
}

Plan rule_of_cycle(std::vector<Item> items, const Cost& cost, std::uint64_t most_bytes, double cycle_us) {
  Plan plan = begun(fmt::format("cycle {:g} ms (Horovod)", cycle_us / 1000), std::move(items));
  double tick = 0;
  for (std::size_t first = 0; first < plan.items.size();) {
    // Cycles in which nothing is ready pass one after the other.
    while (tick < plan.items[first].ready_us)
      tick += cycle_us * std::max(1.0, std::ceil((plan.items[first].ready_us - tick) / cycle_us));
    double end = tick;
    bool is_first_of_cycle = true;
    while (first < plan.items.size() && plan.items[first].ready_us <= tick) {
      std::uint64_t bytes = plan.items[first].bytes;
      std::size_t last = first + 1;
      while (last < plan.items.size() && plan.items[last].ready_us <= tick &&
             bytes + plan.items[last].bytes <= most_bytes)
        bytes += plan.items[last++].bytes;
      plan.buckets.push_back({.first = first, .end = last, .not_before_us = tick});
      end += is_first_of_cycle ? cost.idle(bytes) : cost.queued(bytes);
      is_first_of_cycle = false;
      first = last;
    }
    tick = std::max(tick + cycle_us, end);
  }
  return evaluated(std::move(plan), cost);
}

Plan rule_of_merging(std::vector<Item> items, const LinearCost& cost) {
  Plan plan = begun("merging (MG-WFBP)", std::move(items));
  double free_at = 0;
  std::uint64_t bytes = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    bytes += plan.items[i].bytes;
    const double begin = std::max(free_at, plan.items[i].ready_us);
    const bool is_last = i + 1 == plan.items.size();
    if (!is_last && plan.items[i + 1].ready_us < begin + cost.idle_us) continue;
    plan.buckets.push_back({.first = first, .end = i + 1});
    free_at = begin + cost.idle(bytes);
    first = i + 1;
    bytes = 0;
  }
  return evaluated(std::move(plan), Cost::of(cost));
}

std::vector<Plan> rules_of_others(const std::vector<Item>& items, const Cost& cost) {
  std::vector<Plan> plans;
  plans.push_back(rule_of_one(items, cost));
  plans.push_back(rule_of_each(items, cost));
  for (const std::uint64_t mebibytes : kUsualMebibytes)
    plans.push_back(rule_of_size(items, cost, mebibytes * kMebibyte));
  plans.push_back(rule_of_cycle(items, cost));
  Plan merging = rule_of_merging(items, line_through(cost));
  evaluate(merging, cost);
  plans.push_back(std::move(merging));
  return plans;
}

}  // namespace cohort::graph
