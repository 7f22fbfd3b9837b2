// SPDX-License-Identifier: Apache-2.0
#include <cohort/streams/fork_join.h>

namespace cohort::detail {
namespace {

using Frame = std::coroutine_handle<Promise<void>>;

Frame frame_of(PromiseBase& promise) noexcept {
  return Frame::from_promise(static_cast<Promise<void>&>(promise));
}

}  // namespace

bool Fork::start_all(std::coroutine_handle<> parent, CancelScope* around) {
  open(around);
  if (watcher_ == nullptr) [[likely]] {
    streams_.for_each([this](PromiseBase& stream) { start(frame_of(stream)); });
    return wait(parent);
  }
  parent_ = watcher_->running();
  streams_.for_each([this](PromiseBase& stream) {
    watcher_->starts(parent_, *tasks_scope());
    start(frame_of(stream));
    watcher_->has_started(parent_);
  });
  return wait(parent);
}

void Fork::join() {
  if (watcher_ != nullptr && !empty()) [[unlikely]]
    watcher_->joins(parent_);
  rethrow_if_failed();
}

void Fork::clear() noexcept {
  while (PromiseBase* const stream = streams_.pop_front()) frame_of(*stream).destroy();
}

void Fork::task_finished(PromiseBase& promise) noexcept {
  if (watcher_ != nullptr) [[unlikely]]
    watcher_->ends(promise.exception() != nullptr);
  JoinGroup::task_finished(promise);
}

}  // namespace cohort::detail
