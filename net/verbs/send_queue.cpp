// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/send_queue.h>

namespace cohort::verbs {

int SendQueue::post(ibv_send_wr& request, std::size_t bytes) noexcept {
  ++posted_;
  unsignaled_bytes_ += bytes;
  if (++unsignaled_ >= kSignalRequests || unsignaled_bytes_ >= kCreditBytes)
    request.send_flags |= IBV_SEND_SIGNALED;
  if ((request.send_flags & IBV_SEND_SIGNALED) != 0) {
    marks_[marks_end_++ % marks_.size()] = {posted_, ring_.sent()};
    unsignaled_ = 0;
    unsignaled_bytes_ = 0;
  }
  return pair_.post_send(request);
}

void SendQueue::complete() noexcept {
  const Mark mark = marks_[first_mark_++ % marks_.size()];
  done_ = mark.posted;
  ring_.complete(mark.bytes);
}

}  // namespace cohort::verbs
