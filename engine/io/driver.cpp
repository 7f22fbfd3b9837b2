// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/driver.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace cohort {
namespace {

void close_descriptors(::msghdr& message) noexcept {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      ::close(number);
    }
  }
}

}  // namespace

bool IoOperation::start(std::coroutine_handle<> waiter, CancelScope* scope) noexcept {
  if (!suspend(waiter, scope)) return false;
  cancel_requested_ = false;
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
  // Nobody will see this result: descriptors that came all the same must not leak.
  if (request_.kind == IoKind::recv_message && result >= 0)
    close_descriptors(*static_cast<::msghdr*>(request_.address));
  complete_cancelled();
}

int IoOperation::await_resume() {
  throw_if_cancelled();
  return result_;
}

}  // namespace cohort
