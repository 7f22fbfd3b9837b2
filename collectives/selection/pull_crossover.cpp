// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>

#include <algorithm>

namespace cohort {
namespace {

std::size_t first_of_clear_gains(const std::vector<PullTimes>& measured) {
  std::size_t first = PullCrossover::kNever;
  for (auto times = measured.rbegin();
       times != measured.rend() && times->pulled_us * PullCrossover::kLeastGain <= times->staged_us; ++times)
    first = times->bytes;
  return first;
}

}  // namespace

void PullCrossover::take(const std::vector<PullTimes>& moving) {
  measured_ = moving;
  from_bytes_ = first_of_clear_gains(moving);
  combining_from_bytes_ = kNever;
  is_settled_ = true;
}

void PullCrossover::take_combining(const std::vector<PullTimes>& combining, std::size_t core_cache_bytes) {
  measured_combining_ = combining;
  combining_from_bytes_ = first_of_clear_gains(combining);
  if (combining_from_bytes_ != kNever || from_bytes_ == kNever) return;
  combining_from_bytes_ = std::max(core_cache_bytes, 2 * kSizes.back());
}

}  // namespace cohort
