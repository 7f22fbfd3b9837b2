// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/notify/notify.h>
#include <cohort/streams/stream_watcher.h>

namespace cohort {

/// A notify between two streams of one schedule: one stream posts, another waits.
///
/// On real memory it is a Notify; a machine without memory counts the posts itself, and completes the waits.
/// Threads: one engine. Lifetime: outlives its waits. No allocation on real memory. Errors: as of Notify.
class LocalNotify : Immovable {
 public:
  LocalNotify(StreamWatcher* watcher, std::uint32_t limit)
      : notify_(limit), watcher_(watcher), id_(watcher != nullptr ? watcher->makes_notify(limit) : 0) {}
  ~LocalNotify() {
    if (watcher_ != nullptr) [[unlikely]]
      watcher_->notify_is_gone(id_);
  }

  /// Adds one. Never suspends. More than the limit of untaken posts is a bug in the schedule: asserts.
  void post() noexcept {
    if (watcher_ != nullptr) [[unlikely]]
      return watcher_->posts(id_);
    notify_.post();
  }

  class WaitAwaiter;
  /// Suspends until there is a post, then takes it. One stream at a time: asserts.
  [[nodiscard]] WaitAwaiter wait() noexcept;

 private:
  Notify notify_;
  StreamWatcher* const watcher_;
  const StreamWatcher::NotifyId id_;
};

class LocalNotify::WaitAwaiter final : private Operation {
 public:
  explicit WaitAwaiter(LocalNotify& notify) noexcept : notify_(notify), real_(notify.notify_.wait()) {}

  bool await_ready() const {
    StreamWatcher* const watcher = notify_.watcher_;
    return watcher == nullptr ? real_.await_ready() : watcher->takes_post(notify_.id_);
  }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    StreamWatcher* const watcher = notify_.watcher_;
    if (watcher == nullptr) [[likely]]
      return real_.await_suspend(waiter);
    if (!suspend(waiter, detail::scope_of(waiter))) return false;
    watcher->awaits_post(notify_.id_, *this);
    return true;
  }
  void await_resume() {
    if (notify_.watcher_ == nullptr) [[likely]]
      return real_.await_resume();
    throw_if_cancelled();
  }

 private:
  void request_cancel() noexcept override { complete_cancelled(); }

  LocalNotify& notify_;
  Notify::WaitAwaiter real_;
};

inline LocalNotify::WaitAwaiter LocalNotify::wait() noexcept { return WaitAwaiter(*this); }

}  // namespace cohort
