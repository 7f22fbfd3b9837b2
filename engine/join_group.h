// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <cstddef>
#include <exception>
#include <optional>

namespace cohort::detail {

/// Counts running tasks down and wakes the one that waits for them. The first failure cancels the others.
///
/// What when_all and fork_join have in common; they keep the frames of the tasks until they are over
/// themselves.
class JoinGroup : public TaskOwner, public Operation {
 public:
  virtual ~JoinGroup();

  /// Opens the scope in which the tasks will run. May be opened again after rethrow_if_failed().
  void open(CancelScope* around);
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

  void task_finished(PromiseBase& promise) noexcept override;

  /// Ends the starting phase; false if everything is over already.
  bool wait(std::coroutine_handle<> waiter) noexcept;

  void rethrow_if_failed();

 private:
  /// Never registered with a scope itself: the tasks are cancelled, and their end ends this.
  void request_cancel() noexcept final {}

  std::optional<CancelScope> scope_;
  std::size_t running_ = 0;
  bool starting_ = true;
  std::exception_ptr first_failure_;
};

}  // namespace cohort::detail
