// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/pace.h>

#include <cohort/engine/engine.h>

namespace cohort {

bool Pace::is_turn_over(bool has_waited) noexcept {
  const bool is_over = engine_.is_turn_over();
  if (is_over && !has_waited) return true;
  moved_ = 0;
  return false;
}

}  // namespace cohort
