// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/watchdog.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr Duration kStall = std::chrono::milliseconds(100);
/// All ranks reach the deadline of a call together. Who cannot name whom it waits for lets the others speak
/// first.
constexpr Duration kLastWords = std::chrono::milliseconds(250);

}  // namespace

void Watchdog::begin(Duration timeout) {
  started_ = engine_.now();
  deadline_ = after(started_, timeout);
  has_reported_ = false;
  engine_.timers().arm(*this, std::min(deadline_, started_ + kStall));
}

void Watchdog::end() noexcept { engine_.timers().disarm(*this); }

void Watchdog::expire() noexcept {
  const TimePoint now = engine_.now();
  if (now >= deadline_) {
    const Error error = deadline_error_();
    const bool lets_others_speak = !error.culprit() && now < deadline_ + kLastWords;
    if (lets_others_speak)
      engine_.timers().arm(*this, deadline_ + kLastWords);
    else
      health_.fail(error);
    return;
  }
  // Once: whoever comes late finds it then. To repeat it would fill the buffers of a rank that does not read,
  // which would pass for dead long before a deadline of minutes.
  if (!std::exchange(has_reported_, true)) health_.report_stall();
  engine_.timers().arm(*this, deadline_);
}

}  // namespace cohort
