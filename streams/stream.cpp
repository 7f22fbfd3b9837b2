// SPDX-License-Identifier: Apache-2.0
#include <cohort/streams/stream.h>

#include <cohort/engine/assert.h>

namespace cohort {
namespace {

using Frame = std::coroutine_handle<detail::Promise<void>>;

Frame frame_of(detail::PromiseBase& promise) noexcept {
  return Frame::from_promise(static_cast<detail::Promise<void>&>(promise));
}

/// Reaches the mark when its turn comes; a mark whose work was dropped reports why instead of being
/// forgotten.
class Mark {
 public:
  Mark(Event& event, const std::exception_ptr& failure) noexcept : event_(&event), failure_(&failure) {}
  Mark(Mark&& other) noexcept : event_(std::exchange(other.event_, nullptr)), failure_(other.failure_) {}
  ~Mark() {
    if (event_ != nullptr) event_->reach(*failure_);
  }
  void reach() noexcept { std::exchange(event_, nullptr)->reach(nullptr); }

 private:
  Event* event_;
  const std::exception_ptr* failure_;
};

Task<> reach_mark(Mark mark) {
  mark.reach();
  co_return;
}

Task<> wait_for_mark(Event& event, std::uint64_t mark) { co_await event.wait(mark); }

}  // namespace

Stream::Stream(Engine& engine, std::string name) : engine_(engine), name_(std::move(name)) {
  scope_.emplace();
}

Stream::~Stream() {
  COHORT_ASSERT(is_idle(), "stream '{}' ended with work on it; synchronize() it first", name_);
}

void Stream::enqueue(Task<> task) {
  detail::PromiseBase& promise = task.release().promise();
  promise.set_scope(&*scope_);
  promise.set_owner(this);
  queue_.push_back(promise);
  if (is_idle()) start_next();
}

void Stream::record(Event& event) {
  event.record();
  enqueue(reach_mark(Mark(event, failure_)));
}

void Stream::wait(Event& event) { enqueue(wait_for_mark(event, event.recorded())); }

void Stream::start_next() noexcept {
  // What ran may have ended well although it was cancelled; what is behind it was cancelled, too.
  if (scope_->is_cancelled() && !queue_.empty() && !failure_)
    failure_ = std::make_exception_ptr(scope_->cause());
  if (failure_) drop_queue();
  running_ = queue_.pop_front();
  if (running_ != nullptr) return engine_.schedule(frame_of(*running_));
  renew_scope();
  if (is_pending()) complete();
}

/// Nothing runs in it any more: who is told of the failure, or that there was none, starts anew.
void Stream::renew_scope() noexcept {
  if (scope_->is_cancelled()) scope_.emplace();
}

void Stream::drop_queue() noexcept {
  while (detail::PromiseBase* promise = queue_.pop_front()) frame_of(*promise).destroy();
}

void Stream::request_cancel() noexcept { scope_->cancel(waiter_scope()->cause()); }

void Stream::task_finished(detail::PromiseBase& promise) noexcept {
  if (promise.exception() && !failure_) failure_ = promise.exception();
  frame_of(promise).destroy();
  start_next();
}

bool Stream::SynchronizeAwaiter::suspend(std::coroutine_handle<> waiter, CancelScope* scope) noexcept {
  COHORT_ASSERT(!stream_.is_pending(), "two coroutines synchronize stream '{}'", stream_.name());
  if (stream_.suspend(waiter, scope)) return true;
  stream_.scope_->cancel(scope->cause());
  return stream_.suspend(waiter, nullptr);
}

void Stream::SynchronizeAwaiter::await_resume() {
  if (stream_.failure_) std::rethrow_exception(std::exchange(stream_.failure_, nullptr));
}

}  // namespace cohort
