// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

namespace cohort::detail {

/// Counts running tasks down and wakes the one that waits for them. The first failure cancels the others.
///
/// What when_all and fork_join have in common; they keep the frames of the tasks until they are over
/// themselves.
class JoinGroup : public TaskOwner, public Operation {
 public:
  virtual ~JoinGroup() = default;

  /// Opens the scope in which the tasks will run. May be opened again after rethrow_if_failed().
  void open(CancelScope* around) {
    scope_.emplace(around);
    starting_ = true;
  }
  /// The scope of the tasks; null before open().
  [[nodiscard]] const CancelScope* tasks_scope() const noexcept { return scope_ ? &*scope_ : nullptr; }

  /// Starts a task; it runs until its first suspension.
  template <class T>
  void start(std::coroutine_handle<Promise<T>> handle) {
    auto& promise = handle.promise();
    promise.inherit_scope(&*scope_);
    promise.set_owner(this);
    ++running_;
    handle.resume();
  }

  void task_finished(PromiseBase& promise) noexcept override {
    if (promise.exception() && !first_failure_) {
      first_failure_ = promise.exception();
      if (running_ > 1 || starting_)
        scope_->cancel(Error(ErrorKind::Cancelled, "a task beside this one failed"));
    }
    if (--running_ == 0 && is_pending()) complete();
  }

  /// Ends the starting phase; false if everything is over already.
  bool wait(std::coroutine_handle<> waiter) noexcept {
    starting_ = false;
    return running_ != 0 && suspend(waiter, nullptr);
  }

  void rethrow_if_failed() {
    scope_.reset();
    if (first_failure_) std::rethrow_exception(std::exchange(first_failure_, nullptr));
  }

 private:
  /// Never registered with a scope itself: the tasks are cancelled, and their end ends this.
  void request_cancel() noexcept final {}

  std::optional<CancelScope> scope_;
  std::size_t running_ = 0;
  bool starting_ = true;
  std::exception_ptr first_failure_;
};

}  // namespace cohort::detail
