// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/watchdog.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr Duration kStall = std::chrono::milliseconds(100);

}  // namespace

void Watchdog::begin(Duration timeout) {
  started_ = engine_.now();
  deadline_ = after(started_, timeout);
  engine_.timers().arm(*this, std::min(deadline_, started_ + kStall));
}

void Watchdog::begin_message() noexcept {
  engine_.timers().arm(*this, std::min(deadline_, engine_.now() + kStall));
}

void Watchdog::end() noexcept {
  ended_ = engine_.now();
  engine_.timers().disarm(*this);
}

void Watchdog::expire() noexcept {
  if (engine_.now() >= deadline_) return on_deadline_();
  // Once a message: whoever comes late finds it then.
  on_stall_();
  engine_.timers().arm(*this, deadline_);
}

}  // namespace cohort
