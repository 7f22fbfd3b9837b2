// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>

#include <algorithm>
#include <iterator>

namespace cohort {
namespace {

bool is_gain(const PullTimes& times, PullUse use) noexcept {
  return times.pulled_us * PullCrossover::least_gain(use) <= times.staged_us;
}

std::size_t first_of_gains(const std::vector<PullTimes>& measured, PullUse use) {
  std::size_t first = PullCrossover::kNever;
  for (auto times = measured.rbegin(); times != measured.rend() && is_gain(*times, use); ++times)
    first = times->bytes;
  return first;
}

}  // namespace

PullUse pull_use_of(Operator op, Rank ranks) noexcept {
  if (op->combines) return PullUse::combined;
  if (op.gives_to_all() && op->has_root) return PullUse::broadcast;
  if (op.gives_to_all() && ranks > 2) return PullUse::to_all;
  return op->has_root ? PullUse::rooted : PullUse::to_one;
}

Rank pulled_shares_of(Operator op, Rank ranks) noexcept {
  return op->combines && op.given_per_count(ranks) == 1 ? ranks : 1;
}

bool PullCrossover::pulls(PullUse use, std::size_t bytes) const noexcept {
  if (bytes >= of(use).from_bytes) return true;
  const std::vector<PullTimes>& measured = of(use).measured;
  const auto above = std::ranges::upper_bound(measured, bytes, {}, &PullTimes::bytes);
  return above != measured.begin() && is_gain(*std::prev(above), use);
}

std::vector<PullCrossover::Range> PullCrossover::ranges(PullUse use) const {
  std::vector<Range> found;
  const auto add = [&](Range range) {
    if (!found.empty() && found.back().below == range.from)
      found.back().below = range.below;
    else
      found.push_back(range);
  };
  const std::vector<PullTimes>& measured = of(use).measured;
  for (auto times = measured.begin(); times != measured.end(); ++times) {
    const auto next = std::next(times);
    if (is_gain(*times, use)) add({times->bytes, next == measured.end() ? kNever : next->bytes});
  }
  const bool ends = found.empty() || found.back().below != kNever;
  if (ends && of(use).from_bytes != kNever) add({of(use).from_bytes, kNever});
  return found;
}

void PullCrossover::take(PullUse use, const std::vector<PullTimes>& rising) {
  of(use) = {first_of_gains(rising, use), rising};
  is_settled_ = true;
}

void PullCrossover::renew(PullUse use, const std::vector<PullTimes>& rising) {
  std::vector<PullTimes> least = of(use).measured;
  for (const PullTimes& now : rising) {
    const auto at = std::ranges::lower_bound(least, now.bytes, {}, &PullTimes::bytes);
    if (at == least.end() || at->bytes != now.bytes) {
      least.insert(at, now);
      continue;
    }
    at->staged_us = std::min(at->staged_us, now.staged_us);
    at->pulled_us = std::min(at->pulled_us, now.pulled_us);
  }
  take(use, least);
}

void PullCrossover::combine_beyond(std::size_t core_cache_bytes) noexcept {
  OfUse& use = of(PullUse::combined);
  const bool is_even =
      !use.measured.empty() && use.measured.back().pulled_us <= use.measured.back().staged_us;
  if (use.from_bytes == kNever && is_even) use.from_bytes = std::max(core_cache_bytes, 2 * kSizes.back());
}

void PullCrossover::set_from(std::size_t bytes) noexcept {
  for (OfUse& use : uses_) use = {bytes, {}};
  is_settled_ = true;
}

std::size_t messages_pull_from(std::size_t told_bytes, double engines_per_core,
                               const PullCrossover& measured) noexcept {
  if (told_bytes != 0) return told_bytes;
  if (measured.is_settled()) return measured.from_bytes(PullUse::to_one);
  return engines_per_core <= 1 ? PullCrossover::kNever : 0;
}

}  // namespace cohort
