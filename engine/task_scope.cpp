// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/task_scope.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>

namespace cohort {

TaskScope::~TaskScope() {
  COHORT_ASSERT(
      empty(),
      "a task scope with {} running tasks was destroyed; co_await its join() before it ends, also where "
      "an exception leaves its block, after cancel() if they are not to go on",
      running_);
}

void TaskScope::spawn(Task<> task) {
  auto handle = task.release();
  handle.promise().inherit_scope(&scope_);
  handle.promise().set_owner(this);
  ++running_;
  handle.resume();
}

void TaskScope::request_cancel() noexcept {
  join_cancelled_ = true;
  scope_.cancel(waiter_scope()->cause());
}

void TaskScope::task_finished(detail::PromiseBase& promise) noexcept {
  const bool failed = promise.exception() != nullptr && !scope_.is_cancelled();
  if (failed && !first_failure_) first_failure_ = promise.exception();
  if (failed && report_failure_) report_failure_(promise.exception());
  if (failed && on_failure_ == OnFailure::cancel_others)
    scope_.cancel(error_unless_out_of_memory(
        [] { return Error(ErrorKind::Cancelled, "a task beside this one failed"); }));
  auto& whole = static_cast<detail::Promise<void>&>(promise);
  std::coroutine_handle<detail::Promise<void>>::from_promise(whole).destroy();
  if (--running_ != 0 || !is_pending()) return;
  join_cancelled_ ? complete_cancelled() : complete();
}

}  // namespace cohort
