// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/join_group.h>

#include <cohort/engine/failure.h>

#include <utility>

namespace cohort::detail {

JoinGroup::~JoinGroup() = default;

void JoinGroup::open(CancelScope* around) {
  scope_.emplace(around);
  starting_ = true;
}

void JoinGroup::task_finished(PromiseBase& promise) noexcept {
  if (promise.exception() && !first_failure_) {
    first_failure_ = promise.exception();
    if (running_ > 1 || starting_)
      scope_->cancel(error_unless_out_of_memory(
          [] { return Error(ErrorKind::Cancelled, "a task beside this one failed"); }));
  }
  if (--running_ == 0 && is_pending()) complete();
}

bool JoinGroup::wait(std::coroutine_handle<> waiter) noexcept {
  starting_ = false;
  return running_ != 0 && suspend(waiter, nullptr);
}

void JoinGroup::rethrow_if_failed() {
  scope_.reset();
  if (first_failure_) std::rethrow_exception(std::exchange(first_failure_, nullptr));
}

}  // namespace cohort::detail
