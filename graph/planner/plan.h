// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/cost.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort::graph {

/// A gradient that is to be reduced, or a piece of one.
struct Item {
  std::string name;
  double ready_us = 0;  ///< from the beginning of the step; the latest rank's
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< of the piece in its gradient
};

/// Items first to end - 1, which travel together.
struct Bucket {
  std::size_t first = 0;
  std::size_t end = 0;
  double not_before_us = 0;  ///< for rules that wait for more than the data
  // By evaluate():
  std::uint64_t bytes = 0;
  double ready_us = 0;
  double end_us = 0;  ///< when it has been reduced

  [[nodiscard]] std::size_t size() const noexcept { return end - first; }
};

/// How items are cut into buckets, and when each ends on one link that takes them in order.
struct Plan {
  std::string rule;         ///< that made it
  std::vector<Item> items;  ///< the earliest ready first
  std::vector<Bucket> buckets{};
  double finish_us = 0;  ///< when the last bucket has been reduced

  /// What of it is later than the end of backward, when the last gradient is ready.
  [[nodiscard]] double exposed_us() const noexcept;
  /// Of names, sizes and buckets, but not of times: the same on all ranks that run the same plan.
  [[nodiscard]] std::uint64_t hash() const noexcept;
};

/// In the order in which they are ready; of those that are at once, as they were.
void sort_by_readiness(std::vector<Item>& items);

/// Cuts items of more bytes into pieces that are as equal as whole elements allow. 0: none.
[[nodiscard]] std::vector<Item> split(std::span<const Item> items, std::uint64_t most_bytes,
                                      std::uint64_t element_bytes = 1);

/// Sets what a plan's buckets come to. A bucket ends at max(ready + idle cost, end of the one before + queued
/// cost). Throws InvalidArgument where items are not sorted, or buckets leave out or repeat items.
void evaluate(Plan& plan, const Cost& cost);

/// Before which no buckets at all can be done, whatever their number: for each item, all bytes from it on
/// have to travel after it is ready. Of a linear cost, or of one that grows with the bytes; otherwise it is
/// none. Linear costs take one walk, others the square of the number of items.
[[nodiscard]] double lower_bound_us(std::span<const Item> items, const Cost& cost);

}  // namespace cohort::graph
