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
  is_long_at_ = after(started_, long_call_);
  stalls_at_ = started_ + kStall;
  arm();
}

void Watchdog::begin_message() noexcept {
  stalls_at_ = engine_.now() + kStall;
  arm();
}

void Watchdog::end() noexcept {
  ended_ = engine_.now();
  engine_.timers().disarm(*this);
}

void Watchdog::arm() noexcept { engine_.timers().arm(*this, std::min({deadline_, stalls_at_, is_long_at_})); }

void Watchdog::expire() noexcept {
  const TimePoint now = engine_.now();
  if (now >= deadline_) return listeners_.on_deadline();
  if (now >= stalls_at_) {
    stalls_at_ = kNever;  // once a message: whoever comes late finds it then
    listeners_.on_stall();
  }
  if (now >= is_long_at_) {
    is_long_at_ = after(now, now - started_);
    listeners_.on_long_call();
  }
  arm();
}

}  // namespace cohort
