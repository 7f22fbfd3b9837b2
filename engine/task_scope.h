// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <functional>

namespace cohort {

/// A place for tasks that run beside their parent: started by spawn(), over before the scope is.
///
/// The first failure cancels the others, if they are not to be kept, and join() throws it; a cancelled
/// sibling's Error is no failure of its own. Threads: one engine. Lifetime: joined (or never used) before it
/// is destroyed, asserted.
class TaskScope final : public detail::TaskOwner, public Operation {
 public:
  /// Whether the tasks belong together, or each is a service of its own.
  enum class OnFailure : std::uint8_t { cancel_others, keep_others };

  /// Cancelled together with `around`, if given.
  explicit TaskScope(CancelScope* around = nullptr, OnFailure on_failure = OnFailure::cancel_others)
      : scope_(around), on_failure_(on_failure) {}
  ~TaskScope();

  /// Runs the task until its first suspension. It owns its arguments: pass values, or what outlives the
  /// scope.
  void spawn(Task<> task);

  /// Waits until every task is over; throws the first failure. More tasks may be spawned meanwhile and
  /// afterwards.
  class JoinAwaiter;
  [[nodiscard]] JoinAwaiter join() noexcept;

  /// Called with each failure as it happens, by the task that failed: for services that nobody joins before
  /// the end.
  void set_on_failure(std::function<void(const std::exception_ptr&)> on_failure) {
    report_failure_ = std::move(on_failure);
  }

  void cancel() noexcept { scope_.cancel(); }
  void cancel(Error cause) noexcept { scope_.cancel(std::move(cause)); }
  [[nodiscard]] CancelScope& cancel_scope() noexcept { return scope_; }
  [[nodiscard]] bool empty() const noexcept { return running_ == 0; }
  /// The first failure so far, or null.
  [[nodiscard]] std::exception_ptr failure() const noexcept { return first_failure_; }

  void task_finished(detail::PromiseBase& promise) noexcept override;

 private:
  /// Whoever joins is to stop: so are the tasks, and their end ends the join. Not inline: of a class whose
  /// vtable is the library's, clang makes no thunk, and the linker may take its copy for g++'s.
  void request_cancel() noexcept override;

  CancelScope scope_;
  const OnFailure on_failure_;
  std::size_t running_ = 0;
  bool join_cancelled_ = false;
  std::exception_ptr first_failure_;
  std::function<void(const std::exception_ptr&)> report_failure_;
};

class TaskScope::JoinAwaiter {
 public:
  explicit JoinAwaiter(TaskScope& scope) noexcept : scope_(scope) {}
  bool await_ready() const noexcept { return scope_.empty(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    has_waited_ = true;
    scope_.join_cancelled_ = false;
    if (scope_.suspend(waiter, detail::scope_of(waiter))) return true;
    // The waiter's scope is cancelled already: the tasks must end all the same before it may go on.
    scope_.request_cancel();
    scope_.suspend_cancelled(waiter);
    return true;
  }
  void await_resume() const {
    if (has_waited_) scope_.throw_if_cancelled();
    if (scope_.first_failure_) std::rethrow_exception(std::exchange(scope_.first_failure_, nullptr));
  }

 private:
  TaskScope& scope_;
  bool has_waited_ = false;
};

inline TaskScope::JoinAwaiter TaskScope::join() noexcept { return JoinAwaiter(*this); }

}  // namespace cohort
