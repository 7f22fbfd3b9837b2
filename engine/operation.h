// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/intrusive_list.h>

#include <coroutine>
#include <cstdint>

namespace cohort {

class CancelScope;
class Engine;

/// One suspended wait: lives in the awaiting frame until it completes, from its own loop and never inside
/// suspend().
///
/// A primitive derives from it, says in request_cancel() how its wait is ended early, and calls complete()
/// when it is over. Whoever must not be abandoned at once (the kernel, a pool thread) completes later: cancel
/// asks, the completion answers. Threads: the owning engine only. Errors: throw_if_cancelled() rethrows the
/// scope's cause.
class Operation : public ListHook {
 public:
  [[nodiscard]] bool is_pending() const noexcept { return waiter_ != nullptr; }
  /// The scope of the last suspend(), or null.
  [[nodiscard]] CancelScope* waiter_scope() const noexcept { return scope_; }
  /// The wait is over: moves the waiter to the engine's ready queue. For whoever carries the operation out.
  void complete() noexcept;
  /// For the scope: it is cancelled. Not a friend's affair, because g++ takes a destructor that friends reach
  /// for a public one.
  void end_early() noexcept { request_cancel(); }

 protected:
  Operation() = default;
  ~Operation();

  /// Asked once, when the scope is cancelled. Ends in complete_cancelled(), now or when the other party
  /// answers.
  virtual void request_cancel() noexcept = 0;

  /// Registers the waiter, of which there is one at a time (asserted); an operation may be used again after
  /// it completed. False: the scope is cancelled already; do not suspend, throw_if_cancelled() will throw.
  [[nodiscard]] bool suspend(std::coroutine_handle<> waiter, CancelScope* scope) noexcept;
  /// For a wait that may not be abandoned although its scope is cancelled: suspends all the same, out of the
  /// scope's reach. Requires that suspend() refused.
  void suspend_cancelled(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  /// Takes suspend() back: the wait was over before it began, and the coroutine goes on without a hop.
  void unsuspend() noexcept {
    unlink();
    waiter_ = nullptr;
  }
  /// As complete(), and throw_if_cancelled() will throw.
  void complete_cancelled() noexcept;
  void throw_if_cancelled() const;

 private:
  std::coroutine_handle<> waiter_ = nullptr;
  CancelScope* scope_ = nullptr;
  bool cancelled_ = false;
};

}  // namespace cohort
