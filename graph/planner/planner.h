// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/plan.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort::graph {

/// What buckets may be. 0 is no limit.
///
/// A bucket of fewer than min_tensor_bytes is formed only where it is the last one, has max_group_size items,
/// or would be larger than bucket_bytes with the next item; an item of more than bucket_bytes is one by
/// itself. So there always is a plan.
struct Limits {
  std::uint64_t bucket_bytes = 0;
  std::uint64_t min_tensor_bytes = 0;
  std::size_t max_group_size = 0;

  [[nodiscard]] bool allows(std::span<const Item> items, std::size_t first, std::size_t end) const;
};

// All of these return the plan that ends first of all that the limits allow: with F(i) the earliest end of
// the first i items, F(i) = min over j of max(ready(i) + idle(j, i), F(j) + queued(j, i)). F(i) does not fall
// with F(j), so the best whole has best parts. Throw InvalidArgument for items that are not sorted by
// readiness.

/// plan_linear() where the cost is linear, otherwise plan_any().
[[nodiscard]] Plan plan(std::vector<Item> items, const Cost& cost, const Limits& limits = {});

/// For any cost. Takes the square of the number of items, or as many steps for each as a bucket may hold.
[[nodiscard]] Plan plan_any(std::vector<Item> items, const Cost& cost, const Limits& limits = {});

/// For a linear cost, in O(items); with min_tensor_bytes in O(items log items).
///
/// For an item i, of those j with F(j) so early that i waits for its data alone, the largest is best; of the
/// others the one with the least F(j) - byte_us * (bytes before j): a monotone queue has it.
[[nodiscard]] Plan plan_linear(std::vector<Item> items, const LinearCost& cost, const Limits& limits = {});

}  // namespace cohort::graph
