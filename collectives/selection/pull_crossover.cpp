// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>

namespace cohort {

void PullCrossover::take(const std::vector<PullTimes>& measured) {
  measured_ = measured;
  from_bytes_ = kNever;
  for (auto times = measured.rbegin();
       times != measured.rend() && times->pulled_us * kLeastGain <= times->staged_us; ++times)
    from_bytes_ = times->bytes;
}

}  // namespace cohort
