// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/event.h>

#include <cohort/bindings/hccl/error.h>

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace cohort::bindings::hccl {

void Recording::reach(std::exception_ptr failure) noexcept {
  const std::lock_guard lock(mutex_);
  reached_at_ = std::chrono::steady_clock::now();
  failure_ = std::move(failure);
  changed_.notify_all();
}

bool Recording::wait(TimePoint until) const {
  std::unique_lock lock(mutex_);
  if (!reached_at_ && Stream::of_this_thread() == stream_)
    refuse(
        "a function that a stream calls (aclrtLaunchHostFunc) waits for an event that is behind it in the "
        "same stream; wait in another thread");
  const auto is_reached = [this] { return reached_at_.has_value(); };
  if (until == kNever)
    changed_.wait(lock, is_reached);
  else if (!changed_.wait_until(lock, until, is_reached))
    return false;
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

std::optional<TimePoint> Recording::reached_at() const {
  const std::lock_guard lock(mutex_);
  return reached_at_;
}

void Event::record(Stream& stream) {
  refuse_child();
  auto recording = std::make_shared<Recording>(stream);
  const std::lock_guard lock(mutex_);
  stream.add({.run = [recording] { recording->reach(nullptr); },
              .skip = [recording](const std::exception_ptr& failure) { recording->reach(failure); }});
  recording_ = std::move(recording);
}

/// Before any lock, which a thread of the parent's may have held.
void Event::refuse_child() const {
  if (fork_.is_child()) [[unlikely]]
    refuse_handle(
        "this process was forked from the one that made the event, which goes on there; create one here "
        "(aclrtCreateEvent)");
}

void Event::reset(Stream& stream) {
  refuse_child();
  const std::lock_guard lock(mutex_);
  const auto forget = [self = shared_from_this(), old = recording_] {
    const std::lock_guard guard(self->mutex_);
    if (self->recording_ == old) self->recording_.reset();
  };
  stream.add({.run = forget, .skip = [forget](const std::exception_ptr&) { forget(); }});
}

void Event::make_wait(Stream& stream, Duration limit) const {
  std::shared_ptr<const Recording> awaited = recording();
  if (awaited == nullptr) return;
  stream.add({.run = [awaited = std::move(awaited), limit] {
    const TimePoint until =
        limit > Duration::zero() ? after(std::chrono::steady_clock::now(), limit) : kNever;
    if (!awaited->wait(until))
      throw CodedError(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, HCCL_E_TIMEOUT,
                       fmt::format("a stream has waited {} s for an event (aclrtSetOpWaitTimeout); see what "
                                   "the stream does in which it was recorded",
                                   std::chrono::duration<double>(limit).count()));
  }});
}

std::shared_ptr<const Recording> Event::recording() const {
  refuse_child();
  const std::lock_guard lock(mutex_);
  return recording_;
}

}  // namespace cohort::bindings::hccl
