// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/task.h>

#include <cstdint>

namespace cohort {

/// Signals from one producer to one waiting coroutine; counts up to `limit` posts that nobody has taken.
///
/// Threads: post() and wait() only on the owning engine. Lifetime: outlives every wait(). No allocation.
/// Errors: wait() throws the cause of its cancel scope (Cancelled, DeadlineExceeded, PeerDied, ...).
class Notify final : private Operation {
 public:
  explicit Notify(std::uint32_t limit = 1) noexcept : limit_(limit) {}

  /// Adds one. Never suspends. More than `limit` untaken posts is a bug in the schedule: asserts.
  void post() noexcept {
    ++posts_;
    COHORT_ASSERT(posts_ <= limit_, "{} posts that nobody took, at most {} are allowed", posts_, limit_);
    if (is_pending()) complete();
  }

  class WaitAwaiter;
  /// Suspends until there is a post, then takes it. At most one waiter at a time: asserts.
  [[nodiscard]] WaitAwaiter wait() noexcept;

  [[nodiscard]] std::uint32_t untaken_posts() const noexcept { return posts_; }

 private:
  void request_cancel() noexcept override { complete_cancelled(); }

  const std::uint32_t limit_;
  std::uint32_t posts_ = 0;
};

class Notify::WaitAwaiter {
 public:
  explicit WaitAwaiter(Notify& notify) noexcept : notify_(notify) {}

  bool await_ready() const noexcept { return notify_.posts_ != 0; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    COHORT_ASSERT(!notify_.is_pending(), "two coroutines wait for one notify");
    return notify_.suspend(waiter, detail::scope_of(waiter));
  }
  void await_resume() {
    if (notify_.posts_ == 0) notify_.throw_if_cancelled();
    --notify_.posts_;
  }

 private:
  Notify& notify_;
};

inline Notify::WaitAwaiter Notify::wait() noexcept { return WaitAwaiter(*this); }

}  // namespace cohort
