// SPDX-License-Identifier: Apache-2.0
#include <cohort/notify/event.h>

#include <cohort/engine/assert.h>

namespace cohort {

Event::~Event() { COHORT_ASSERT(waiters_.empty() && is_done(), "an event ended while streams still use it"); }

void Event::reach(std::exception_ptr failure) noexcept {
  COHORT_ASSERT(done_ < recorded_, "mark {} was reached but never recorded", done_ + 1);
  ++done_;
  if (failure && !failure_) failure_ = failure;
  waiters_.for_each([this](Waiting& waiting) {
    if (waiting.awaiter.mark_ > done_) return;
    waiting.unlink();
    waiting.awaiter.complete();
  });
}

void Event::WaitAwaiter::request_cancel() noexcept {
  link_.unlink();
  complete_cancelled();
}

}  // namespace cohort
