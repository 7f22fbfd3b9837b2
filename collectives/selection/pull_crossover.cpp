// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>

#include <algorithm>

namespace cohort {
namespace {

std::size_t first_of_gains(const std::vector<PullTimes>& measured, double least_gain) {
  std::size_t first = PullCrossover::kNever;
  for (auto times = measured.rbegin();
       times != measured.rend() && times->pulled_us * least_gain <= times->staged_us; ++times)
    first = times->bytes;
  return first;
}

}  // namespace

PullUse pull_use_of(Operator op) noexcept {
  if (op->combines) return PullUse::combined;
  return op.gives_to_all() ? PullUse::to_all : PullUse::to_one;
}

void PullCrossover::take(PullUse use, const std::vector<PullTimes>& rising) {
  of(use) = {first_of_gains(rising, least_gain(use)), rising};
  is_settled_ = true;
}

void PullCrossover::combine_beyond(std::size_t core_cache_bytes) noexcept {
  std::size_t& from_bytes = of(PullUse::combined).from_bytes;
  if (from_bytes == kNever) from_bytes = std::max(core_cache_bytes, 2 * kSizes.back());
}

void PullCrossover::set_from(std::size_t bytes) noexcept {
  for (OfUse& use : uses_) use.from_bytes = bytes;
  is_settled_ = true;
}

std::size_t messages_pull_from(std::size_t told_bytes, double engines_per_core,
                               const PullCrossover& measured) noexcept {
  if (told_bytes != 0) return told_bytes;
  if (engines_per_core <= 1) return PullCrossover::kNever;
  return measured.is_settled() ? measured.from_bytes(PullUse::to_one) : 0;
}

}  // namespace cohort
