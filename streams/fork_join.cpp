// SPDX-License-Identifier: Apache-2.0
#include <cohort/streams/fork_join.h>

namespace cohort {
namespace detail {
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

std::unique_ptr<Fork> ForkPool::lease() {
  if (idle_ == nullptr) return std::make_unique<Fork>(watcher_);
  std::unique_ptr<Fork> fork = std::move(idle_);
  idle_ = std::move(fork->next_);
  return fork;
}

void ForkPool::give_back(std::unique_ptr<Fork> fork) noexcept {
  fork->clear();
  fork->next_ = std::move(idle_);
  idle_ = std::move(fork);
}

}  // namespace detail

ForkJoin::ForkJoin(detail::ForkPool& pool) : pool_(pool), fork_(pool.lease()) {}

ForkJoin::~ForkJoin() { pool_.give_back(std::move(fork_)); }

}  // namespace cohort
