// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/stream_observer.h>
#include <cohort/engine/task.h>

#include <span>
#include <tuple>
#include <vector>

namespace cohort {

namespace detail {

/// Counts running tasks down and wakes the one that waits for them. The first failure cancels the others.
class JoinGroup : public TaskOwner, public Operation {
 public:
  /// Opens the scope in which the tasks will run.
  void open(CancelScope* around) { scope_.emplace(around); }

  /// Starts a task; it runs until its first suspension.
  template <class T>
  void start(std::coroutine_handle<Promise<T>> handle) {
    auto& promise = handle.promise();
    promise.inherit_scope(&*scope_);
    promise.set_owner(this);
    ++running_;
    StreamObserver* const observer = stream_observer();
    if (observer != nullptr) [[unlikely]]
      observer->task_starts();
    handle.resume();
    if (observer != nullptr) [[unlikely]]
      observer->task_started();
  }

  void task_finished(PromiseBase& promise) noexcept final {
    if (StreamObserver* const observer = stream_observer(); observer != nullptr) [[unlikely]]
      observer->task_ends(promise.exception() != nullptr);
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
    if (StreamObserver* const observer = stream_observer(); observer != nullptr && scope_) [[unlikely]]
      observer->tasks_joined();
    scope_.reset();
    if (first_failure_) std::rethrow_exception(first_failure_);
  }

 private:
  /// Never registered with a scope itself: the tasks are cancelled, and their end ends this.
  void request_cancel() noexcept final {}

  std::optional<CancelScope> scope_;
  std::size_t running_ = 0;
  bool starting_ = true;
  std::exception_ptr first_failure_;
};

template <class T>
using NonVoid = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
NonVoid<T> take_result(std::coroutine_handle<Promise<T>> handle) {
  if constexpr (std::is_void_v<T>) {
    handle.promise().take();
    return {};
  } else {
    return handle.promise().take();
  }
}

template <class T>
using HandleOf = typename Task<T>::Handle;

template <class... T>
class WhenAll {
 public:
  explicit WhenAll(Task<T>... tasks) : tasks_(std::move(tasks)...) {
    std::apply([this](auto&... task) { handles_ = std::tuple(task.release()...); }, tasks_);
  }
  WhenAll(const WhenAll&) = delete;
  WhenAll& operator=(const WhenAll&) = delete;
  ~WhenAll() {
    std::apply([](auto... handle) { (handle.destroy(), ...); }, handles_);
  }

  bool await_ready() const noexcept { return sizeof...(T) == 0; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> parent) {
    group_.open(scope_of(parent));
    std::apply([this](auto... handle) { (group_.start(handle), ...); }, handles_);
    return group_.wait(parent);
  }
  /// The results in the order of the arguments, std::monostate for void; nothing if all are void.
  auto await_resume() {
    group_.rethrow_if_failed();
    if constexpr (!(std::is_void_v<T> && ...))
      return std::apply([](auto... handle) { return std::tuple<NonVoid<T>...>(take_result(handle)...); },
                        handles_);
  }

 private:
  std::tuple<Task<T>...> tasks_;
  std::tuple<HandleOf<T>...> handles_;
  JoinGroup group_;
};

class WhenAllRange {
 public:
  explicit WhenAllRange(std::span<Task<>> tasks) noexcept : tasks_(tasks) {}

  bool await_ready() const noexcept { return tasks_.empty(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> parent) {
    group_.open(scope_of(parent));
    for (Task<>& task : tasks_) group_.start(task.handle());
    return group_.wait(parent);
  }
  void await_resume() { group_.rethrow_if_failed(); }

 private:
  std::span<Task<>> tasks_;
  JoinGroup group_;
};

}  // namespace detail

/// Runs tasks concurrently and completes when all are over: `auto [a, b] = ...` after binding the whole
/// result.
///
/// The first failure cancels the others; when all have ended it is thrown. Tasks that complete at once cost
/// no hop.
template <class... T>
[[nodiscard]] detail::WhenAll<T...> when_all(Task<T>... tasks) {
  return detail::WhenAll<T...>(std::move(tasks)...);
}

/// The same for any number of tasks, which the caller keeps.
[[nodiscard]] inline detail::WhenAllRange when_all(std::span<Task<>> tasks) {
  return detail::WhenAllRange(tasks);
}
[[nodiscard]] inline detail::WhenAllRange when_all(std::vector<Task<>>& tasks) {
  return detail::WhenAllRange(std::span<Task<>>(tasks));
}

}  // namespace cohort
