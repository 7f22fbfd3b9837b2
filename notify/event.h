// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <array>
#include <cstdint>
#include <exception>
#include <limits>

namespace cohort {

/// A mark in the work of one stream that other streams wait for: compute before communication, and back.
///
/// stream.record(event) marks, other.wait(event) waits for the marks made so far; it may be recorded again
/// and again. Any number of waiters. An event that was never recorded lets everybody pass.
///
/// When the work before a mark fails, whoever waits for it gets that failure, or for one that was recorded
/// before all marks were reached; what is recorded after that does not. Threads: one engine. Lifetime:
/// outlives its records and waits.
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
  std::uint64_t record() noexcept {
    if (is_done()) close_failure();
    return ++recorded_;
  }
  /// The next mark is reached, or its work failed.
  void reach(std::exception_ptr failure) noexcept;

 private:
  /// Membership in the list of waiters; an operation's own hook belongs to its cancel scope.
  struct Waiting : ListHook {
    explicit Waiting(WaitAwaiter& whose) noexcept : awaiter(whose) {}
    WaitAwaiter& awaiter;
  };

  /// The marks that `failure` is told for: from the one that failed to the last one of those that were
  /// recorded before all were reached, kOpen until that is known.
  struct Failed {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::exception_ptr failure;
  };
  static constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();
  /// Whoever is farther behind than so many failures gets one that is not his, rather than none.
  static constexpr std::size_t kMostFailures = 4;

  void close_failure() noexcept;
  void note_failure(std::exception_ptr failure) noexcept;
  void throw_if_failed(std::uint64_t mark) const;

  std::uint64_t recorded_ = 0;
  std::uint64_t done_ = 0;
  std::array<Failed, kMostFailures> failures_;  ///< the last one is the latest
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
    event_.throw_if_failed(mark_);
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
