// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/driver.h>

#include <unistd.h>

namespace cohort {

bool IoOperation::start(std::coroutine_handle<> waiter, CancelScope* scope) noexcept {
  if (!suspend(waiter, scope)) return false;
  driver_.submit(*this);
  return true;
}

void IoOperation::request_cancel() noexcept {
  cancel_requested_ = true;
  driver_.cancel(*this);
}

void IoOperation::finish(int result) noexcept {
  result_ = result;
  if (!cancel_requested_) {
    complete();
    return;
  }
  // Nobody will see this result: a descriptor that came all the same must not leak.
  if (request_.kind == IoKind::accept && result >= 0) ::close(result);
  complete_cancelled();
}

int IoOperation::await_resume() {
  throw_if_cancelled();
  return result_;
}

}  // namespace cohort
