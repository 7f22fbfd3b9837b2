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
  if (!link_.start(*this)) return true;
  unsuspend();
  return false;
}

void LinkOperation::request_cancel() noexcept {
  cancel_requested_ = true;
  link_.cancel(*this);
}

}  // namespace cohort
