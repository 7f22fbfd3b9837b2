// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <cstdint>
#include <exception>

namespace cohort {

/// A mark in the work of one stream that other streams wait for: compute before communication, and back.
///
/// stream.record(event) marks, other.wait(event) waits for the marks made so far; it may be recorded again
/// and again. Any number of waiters. An event that was never recorded lets everybody pass. When the work
/// before a mark fails, whoever waits for it gets that failure. Threads: one engine. Lifetime: outlives its
/// records and waits.
class Event : Immovable {
 public:
  Event() = default;
  ~Event();

  /// How many marks have been asked for; a waiter passes when that many are done.
  [[nodiscard]] std::uint64_t recorded() const noexcept { return recorded_; }
  [[nodiscard]] bool is_done() const noexcept { return done_ == recorded_; }

  class WaitAwaiter;
  /// Suspends until all marks recorded up to now are done.
  [[nodiscard]] WaitAwaiter wait() noexcept;
  /// Suspends until the first `mark` marks are done.
  [[nodiscard]] WaitAwaiter wait(std::uint64_t mark) noexcept;

  // For streams:
  /// Announces one more mark and returns its number.
  std::uint64_t record() noexcept { return ++recorded_; }
  /// The next mark is reached, or its work failed.
  void reach(std::exception_ptr failure) noexcept;

 private:
  /// Membership in the list of waiters; an operation's own hook belongs to its cancel scope.
  struct Waiting : ListHook {
    explicit Waiting(WaitAwaiter& whose) noexcept : awaiter(whose) {}
    WaitAwaiter& awaiter;
  };

  std::uint64_t recorded_ = 0;
  std::uint64_t done_ = 0;
  std::exception_ptr failure_;
  IntrusiveList<Waiting> waiters_;
};

class Event::WaitAwaiter final : public Operation {
 public:
  WaitAwaiter(Event& event, std::uint64_t mark) noexcept : event_(event), link_(*this), mark_(mark) {}

  bool await_ready() const noexcept { return event_.done_ >= mark_; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    if (!suspend(waiter, detail::scope_of(waiter))) return false;
    event_.waiters_.push_back(link_);
    return true;
  }
  void await_resume() const {
    throw_if_cancelled();
    if (event_.failure_) std::rethrow_exception(event_.failure_);
  }

 private:
  friend class Event;
  void request_cancel() noexcept override;

  Event& event_;
  Waiting link_;
  std::uint64_t mark_;
};

inline Event::WaitAwaiter Event::wait() noexcept { return wait(recorded_); }
inline Event::WaitAwaiter Event::wait(std::uint64_t mark) noexcept { return WaitAwaiter(*this, mark); }

}  // namespace cohort
