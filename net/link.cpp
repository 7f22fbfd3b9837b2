// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/link.h>

namespace cohort {

std::string_view to_string(Signal signal) noexcept {
  switch (signal) {
    case Signal::Ack: return "Ack";
    case Signal::DataSignal: return "DataSignal";
    case Signal::DataAck: return "DataAck";
  }
  return "?";
}

bool LinkOperation::start(std::coroutine_handle<> waiter, CancelScope* scope) {
  if (!suspend(waiter, scope)) return false;
  const bool is_over = link_.start(*this);
  // What went wrong as it began may have cancelled the scope, and this operation with it.
  if (!is_over || !is_pending()) return true;
  unsuspend();
  return false;
}

void LinkOperation::request_cancel() noexcept {
  cancel_requested_ = true;
  link_.cancel(*this);
}

}  // namespace cohort
