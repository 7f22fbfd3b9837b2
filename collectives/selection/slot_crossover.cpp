// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/slot_crossover.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace cohort {

namespace {

/// A message takes no longer than a larger one: a time that says so was disturbed, and is taken for as long.
std::vector<SlotTimes> trusting_larger_ones(std::vector<SlotTimes> rising) {
  for (std::size_t i = rising.size(); i-- > 1;) {
    rising[i - 1].slots_us = std::min(rising[i - 1].slots_us, rising[i].slots_us);
    rising[i - 1].direct_us = std::min(rising[i - 1].direct_us, rising[i].direct_us);
  }
  return rising;
}

bool has_lost(const SlotTimes& times) {
  const double part = times.bytes < SlotCrossover::kClearFromBytes ? 1 : SlotCrossover::kIsClear;
  return times.slots_us > part * times.direct_us;
}

}  // namespace

void SlotCrossover::take(const std::vector<SlotTimes>& as_measured) {
  if (as_measured.empty()) return;
  const std::vector<SlotTimes> of_one_operator = trusting_larger_ones(as_measured);
  const auto lost = std::ranges::find_if(of_one_operator, has_lost);
  std::size_t most = 0;
  if (lost == of_one_operator.begin())
    most = lost->bytes / 2;
  else
    most = std::prev(lost)->bytes;
  if (lost == of_one_operator.end()) most = std::max(most, kUnmeasuredBytes);
  const Operator op = of_one_operator.front().op;
  const bool is_whole = lost != of_one_operator.end() || of_one_operator.size() == sizes_of(op.info()).size();
  limits_[op.index()] = {.bytes = most, .is_measured = true, .is_whole = is_whole};
  measured_.insert(measured_.end(), of_one_operator.begin(), of_one_operator.end());
  share_limits();
}

void SlotCrossover::renew(const std::vector<SlotTimes>& as_measured) {
  if (as_measured.empty()) return;
  const Operator op = as_measured.front().op;
  std::vector<SlotTimes> least;
  for (const std::size_t bytes : kSizes) {
    const auto has_size = [&](const SlotTimes& times) { return times.op == op && times.bytes == bytes; };
    const auto earlier = std::ranges::find_if(measured_, has_size);
    const auto now = std::ranges::find_if(as_measured, has_size);
    if (earlier != measured_.end()) least.push_back(*earlier);
    if (now == as_measured.end()) continue;
    if (earlier == measured_.end()) least.push_back(*now);
    least.back().slots_us = std::min(least.back().slots_us, now->slots_us);
    least.back().direct_us = std::min(least.back().direct_us, now->direct_us);
  }
  std::erase_if(measured_, [&](const SlotTimes& times) { return times.op == op; });
  take(least);
}

void SlotCrossover::share_limits() noexcept {
  for (const bool combines : {false, true}) {
    std::optional<std::size_t> least;
    for (const Operator op : all_operators()) {
      const Limit& limit = limits_[op.index()];
      if (op->combines == combines && limit.is_whole)
        least = std::min(least.value_or(limit.bytes), limit.bytes);
    }
    for (const Operator op : all_operators()) {
      const Limit& limit = limits_[op.index()];
      if (op->combines != combines) continue;
      const std::size_t shared = least.value_or(limit.bytes);
      const std::size_t unless_whole = limit.is_measured ? std::max(limit.bytes, shared) : shared;
      most_bytes_[op.index()] = limit.is_whole ? limit.bytes : unless_whole;
    }
  }
  for (const Operator op : all_operators())
    if (!limits_[op.index()].is_measured) most_bytes_[op.index()] = most_bytes_[op.with_one_count().index()];
}

std::optional<SlotTimes> SlotCrossover::times_of(Operator op, std::size_t bytes) const noexcept {
  const SlotTimes* below = nullptr;
  for (const SlotTimes& at : measured_) {
    if (at.op != op) continue;
    if (at.bytes == bytes) return at;
    if (at.bytes < bytes) {
      below = &at;
      continue;
    }
    if (below == nullptr) return std::nullopt;
    const double part =
        static_cast<double>(bytes - below->bytes) / static_cast<double>(at.bytes - below->bytes);
    return SlotTimes{op, bytes, std::lerp(below->slots_us, at.slots_us, part),
                     std::lerp(below->direct_us, at.direct_us, part)};
  }
  return std::nullopt;
}

}  // namespace cohort
