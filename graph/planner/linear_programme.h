// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/planner.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace cohort::graph {

/// The dynamic programme of plan_linear(): where each bucket begins.
///
/// An item's end never falls from one item to the next while there is no min_tensor_bytes, so that those j
/// whose end data alone decides are the first ones: a pointer that moves forward. With it they are kept apart
/// by heaps.
class LinearProgramme {
 public:
  LinearProgramme(std::span<const Item> items, const LinearCost& cost, const Limits& limits);

  /// By number of items: where the bucket that ends there begins.
  [[nodiscard]] const std::vector<std::size_t>& begins() const noexcept { return begins_; }

 private:
  using Entry = std::pair<double, std::size_t>;
  using LeastFirst = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  void run_queue();
  void run_heaps();
  /// The first j from which a bucket may reach to `end`.
  void advance_window(std::size_t end);
  void offer(std::size_t first, std::size_t end);
  /// Buckets of too few bytes that may end here all the same.
  void offer_full(std::size_t end);
  [[nodiscard]] std::uint64_t bytes(std::size_t first, std::size_t end) const {
    return sums_[end] - sums_[first];
  }
  [[nodiscard]] double key(std::size_t first) const {
    return ends_[first] - cost_.byte_us * static_cast<double>(sums_[first]);
  }
  /// Whether a bucket from there waits for its data, and not for the bucket before it.
  [[nodiscard]] bool waits_for_data(std::size_t first, std::size_t end) const {
    return ends_[first] + cost_.queued_us <= items_[end - 1].ready_us + cost_.idle_us;
  }

  std::span<const Item> items_;
  LinearCost cost_;
  Limits limits_;
  std::vector<std::uint64_t> sums_;  ///< of bytes, up to each item
  std::vector<double> ends_;
  std::vector<std::size_t> begins_;
  std::size_t window_ = 0;
};

}  // namespace cohort::graph
