// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/planner.h>

#include <cohort/graph/planner/linear_programme.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cohort::graph {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();

/// From where the bucket that ends at each item begins.
std::vector<Bucket> buckets_of(const std::vector<std::size_t>& begins) {
  std::vector<Bucket> buckets;
  for (std::size_t end = begins.size() - 1; end > 0; end = begins[end])
    buckets.push_back({.first = begins[end], .end = end});
  std::ranges::reverse(buckets);
  return buckets;
}

}  // namespace

bool Limits::allows(std::span<const Item> items, std::size_t first, std::size_t end) const {
  const std::size_t size = end - first;
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < end; ++i) bytes += items[i].bytes;
  if (max_group_size != 0 && size > max_group_size) return false;
  if (bucket_bytes != 0 && size > 1 && bytes > bucket_bytes) return false;
  if (bytes >= min_tensor_bytes || end == items.size() || size == max_group_size) return true;
  return bucket_bytes != 0 && bytes + items[end].bytes > bucket_bytes;
}

Plan plan(std::vector<Item> items, const Cost& cost, const Limits& limits) {
  return cost.linear ? plan_linear(std::move(items), *cost.linear, limits)
                     : plan_any(std::move(items), cost, limits);
}

Plan plan_any(std::vector<Item> items, const Cost& cost, const Limits& limits) {
  Plan plan{.rule = "optimum", .items = std::move(items)};
  const std::size_t count = plan.items.size();
  std::vector<double> ends(count + 1, kUnreached);
  std::vector<std::size_t> begins(count + 1, 0);
  ends[0] = -kUnreached;
  for (std::size_t end = 1; end <= count; ++end) {
    std::uint64_t bytes = 0;
    for (std::size_t first = end; first-- > 0;) {
      bytes += plan.items[first].bytes;
      const std::size_t size = end - first;
      if (limits.max_group_size != 0 && size > limits.max_group_size) break;
      if (limits.bucket_bytes != 0 && size > 1 && bytes > limits.bucket_bytes) break;
      const bool is_full = end == count || size == limits.max_group_size ||
                           (limits.bucket_bytes != 0 && bytes + plan.items[end].bytes > limits.bucket_bytes);
      if (ends[first] == kUnreached || (bytes < limits.min_tensor_bytes && !is_full)) continue;
      const double one =
          std::max(plan.items[end - 1].ready_us + cost.idle(bytes), ends[first] + cost.queued(bytes));
      if (one < ends[end]) {
        ends[end] = one;
        begins[end] = first;
      }
    }
  }
  plan.buckets = buckets_of(begins);
  evaluate(plan, cost);
  return plan;
}

Plan plan_linear(std::vector<Item> items, const LinearCost& cost, const Limits& limits) {
  Plan plan{.rule = "optimum", .items = std::move(items)};
  plan.buckets = buckets_of(LinearProgramme(plan.items, cost, limits).begins());
  evaluate(plan, Cost::of(cost));
  return plan;
}

}  // namespace cohort::graph
