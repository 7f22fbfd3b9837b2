// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/pace.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/tuning.h>

namespace cohort {
bool Pace::is_turn_over(bool has_waited) noexcept {
  looked_at_ = engine_.now();
  const bool is_over = engine_.is_turn_over(looked_at_);
  if (is_over && !has_waited) return true;
  moved_ = 0;
  return false;
}

void Pace::learn_from_part() noexcept {
  const Duration took = engine_.now() - looked_at_;
  if (took == Duration::zero()) return;  // a clock that stands still teaches nothing
  if (took < tuning::waiting::kShortPart && parts_at_once_ < tuning::waiting::kMostPartsAtOnce)
    parts_at_once_ *= 2;
  if (took > tuning::waiting::kLongPart && parts_at_once_ > 1) parts_at_once_ /= 2;
}

}  // namespace cohort
