// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/linear_programme.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace cohort::graph {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

LinearProgramme::LinearProgramme(std::span<const Item> items, const LinearCost& cost, const Limits& limits)
    : items_(items),
      cost_(cost),
      limits_(limits),
      sums_(items.size() + 1, 0),
      ends_(items.size() + 1, kNever),
      begins_(items.size() + 1, 0) {
  for (std::size_t i = 0; i < items.size(); ++i) sums_[i + 1] = sums_[i] + items[i].bytes;
  ends_[0] = -kNever;
  if (limits.min_tensor_bytes == 0)
    run_queue();
  else
    run_heaps();
}

void LinearProgramme::advance_window(std::size_t end) {
  while (window_ + 1 < end && ((limits_.max_group_size != 0 && end - window_ > limits_.max_group_size) ||
                               (limits_.bucket_bytes != 0 && bytes(window_, end) > limits_.bucket_bytes)))
    ++window_;
}

void LinearProgramme::offer(std::size_t first, std::size_t end) {
  if (ends_[first] == kNever) return;
  const std::uint64_t size = bytes(first, end);
  const double one = std::max(items_[end - 1].ready_us + cost_.idle(size), ends_[first] + cost_.queued(size));
  if (one < ends_[end]) {
    ends_[end] = one;
    begins_[end] = first;
  }
}

void LinearProgramme::run_queue() {
  std::deque<std::size_t> later;  // those that wait for the bucket before them, by rising key
  std::size_t data_alone = 0;     // so many first ones wait for their data
  for (std::size_t end = 1; end < ends_.size(); ++end) {
    while (!later.empty() && key(later.back()) >= key(end - 1)) later.pop_back();
    later.push_back(end - 1);
    advance_window(end);
    while (data_alone < end && waits_for_data(data_alone, end)) ++data_alone;
    while (!later.empty() && later.front() < std::max(window_, data_alone)) later.pop_front();
    if (data_alone > window_) offer(data_alone - 1, end);
    if (!later.empty()) offer(later.front(), end);
  }
}

void LinearProgramme::offer_full(std::size_t end) {
  if (end == items_.size()) {
    for (std::size_t first = window_; first < end; ++first) offer(first, end);
    return;
  }
  if (limits_.max_group_size != 0 && end >= window_ + limits_.max_group_size)
    offer(end - limits_.max_group_size, end);
  if (limits_.bucket_bytes == 0) return;
  for (std::size_t first = window_; first < end && bytes(first, end + 1) > limits_.bucket_bytes; ++first)
    offer(first, end);
}

void LinearProgramme::run_heaps() {
  LeastFirst by_end;
  LeastFirst by_key;
  std::vector<bool> waits(ends_.size(), false);
  std::optional<std::size_t> last_waiting;
  std::size_t eligible = 0;  // those below have enough bytes up to here
  for (std::size_t end = 1; end < ends_.size(); ++end) {
    advance_window(end);
    for (; eligible < end && bytes(eligible, end) >= limits_.min_tensor_bytes; ++eligible)
      if (ends_[eligible] != kNever) {
        by_end.emplace(ends_[eligible], eligible);
        by_key.emplace(key(eligible), eligible);
      }
    while (!by_end.empty() && waits_for_data(by_end.top().second, end)) {
      const std::size_t first = by_end.top().second;
      waits[first] = true;
      last_waiting = std::max(last_waiting.value_or(0), first);
      by_end.pop();
    }
    while (!by_key.empty() && (waits[by_key.top().second] || by_key.top().second < window_)) by_key.pop();
    if (last_waiting && *last_waiting >= window_) offer(*last_waiting, end);
    if (!by_key.empty()) offer(by_key.top().second, end);
    offer_full(end);
  }
}

}  // namespace cohort::graph
