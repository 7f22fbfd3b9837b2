// SPDX-License-Identifier: Apache-2.0
#include <cohort/notify/event.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <utility>

namespace cohort {

Event::~Event() { COHORT_ASSERT(waiters_.empty() && is_done(), "an event ended while streams still use it"); }

void Event::reach(std::exception_ptr failure) noexcept {
  COHORT_ASSERT(done_ < recorded_, "mark {} was reached but never recorded", done_ + 1);
  ++done_;
  if (failure) note_failure(std::move(failure));
  waiters_.for_each([this](Waiting& waiting) {
    if (waiting.awaiter.mark_ > done_) return;
    waiting.unlink();
    waiting.awaiter.complete();
  });
}

void Event::close_failure() noexcept {
  if (failures_.back().last == kOpen) failures_.back().last = recorded_;
}

void Event::note_failure(std::exception_ptr failure) noexcept {
  if (failures_.back().last == kOpen) return;  // the first failure is the one that is told
  if (failures_.front().first != 0) failures_[1].first = failures_.front().first;
  std::ranges::move(failures_.begin() + 1, failures_.end(), failures_.begin());
  failures_.back() = {done_, kOpen, std::move(failure)};
}

void Event::throw_if_failed(std::uint64_t mark) const {
  for (const Failed& failed : failures_)
    if (failed.first <= mark && mark <= failed.last && failed.failure) std::rethrow_exception(failed.failure);
}

void Event::WaitAwaiter::request_cancel() noexcept {
  link_.unlink();
  complete_cancelled();
}

}  // namespace cohort
