// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/loop/frame_pool.h>

#include <concepts>
#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

namespace cohort {

template <class T>
class Task;

namespace detail {

class PromiseBase;

/// Who is told when a task that nobody awaits directly is over: when_all and TaskScope.
class TaskOwner {
 public:
  /// The task is suspended at its end: its frame may be destroyed, now or later.
  virtual void task_finished(PromiseBase& promise) noexcept = 0;

 protected:
  ~TaskOwner() = default;
};

void schedule_on_current_engine(std::coroutine_handle<> handle) noexcept;

/// What every task's frame carries, whatever it returns.
class PromiseBase : public ListHook {
 public:
  static void* operator new(std::size_t bytes) { return FramePool::allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { FramePool::release(block, bytes); }

  std::suspend_always initial_suspend() const noexcept { return {}; }

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
      handle.promise().finish();
    }
    void await_resume() const noexcept {}
  };
  FinalAwaiter final_suspend() const noexcept { return {}; }

  void unhandled_exception() noexcept { exception_ = std::current_exception(); }

  [[nodiscard]] CancelScope* scope() const noexcept { return scope_; }
  void set_scope(CancelScope* scope) noexcept { scope_ = scope; }
  /// A scope that with_scope() gave is kept: its deadline was asked for.
  void inherit_scope(CancelScope* scope) noexcept {
    if (scope_ == nullptr) scope_ = scope;
  }
  void set_continuation(std::coroutine_handle<> continuation) noexcept { continuation_ = continuation; }
  void set_owner(TaskOwner* owner) noexcept { owner_ = owner; }
  [[nodiscard]] std::exception_ptr exception() const noexcept { return exception_; }

 protected:
  void rethrow_if_failed() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  /// A task that had suspended goes through the ready queue: deterministic order, and no stack growth on g++
  /// (PR 94794).
  void finish() noexcept {
    if (owner_ != nullptr)
      owner_->task_finished(*this);
    else if (continuation_ != nullptr)
      schedule_on_current_engine(continuation_);
  }

  CancelScope* scope_ = nullptr;
  std::coroutine_handle<> continuation_ = nullptr;
  TaskOwner* owner_ = nullptr;
  std::exception_ptr exception_;
};

template <class T>
class Promise final : public PromiseBase {
 public:
  Task<T> get_return_object() noexcept;

  template <std::convertible_to<T> Value>
  void return_value(Value&& value) {
    result_.template emplace<1>(std::forward<Value>(value));
  }

  T take() {
    rethrow_if_failed();
    return std::get<1>(std::move(result_));
  }

 private:
  std::variant<std::monostate, T> result_;
};

template <>
class Promise<void> final : public PromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const { rethrow_if_failed(); }
};

/// The cancel scope of whatever awaits; a coroutine that is not a Task has none.
template <class P>
CancelScope* scope_of(std::coroutine_handle<P> handle) noexcept {
  if constexpr (std::derived_from<P, PromiseBase>)
    return handle.promise().scope();
  else
    return nullptr;
}

}  // namespace detail

/// A coroutine that runs when it is awaited, once, on the engine of whoever awaits it.
///
/// Lazy and move-only. A child that completes without suspending costs its parent no hop; one that had
/// suspended hands over through the ready queue. Its frame comes from the thread's FramePool. Reference
/// arguments live until it ends. Throws what its body throws.
///
/// Threads: one engine. Destroying a task destroys the coroutines it awaits; a task with an operation in
/// flight may not be destroyed (asserted): cancel it and await it.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() noexcept = default;
  explicit Task(Handle handle) noexcept : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { destroy(); }

  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] Handle handle() const noexcept { return handle_; }
  /// Gives up ownership of the frame: for when_all, TaskScope and Engine::run.
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, nullptr); }

  class Awaiter {
   public:
    explicit Awaiter(Handle child) noexcept : child_(child) {}
    bool await_ready() const noexcept { return false; }
    /// Not a symmetric transfer: g++ needs a tail call for that, which -O0, -Og and the sanitizers do not
    /// give.
    template <class P>
    bool await_suspend(std::coroutine_handle<P> parent) {
      auto& promise = child_.promise();
      promise.inherit_scope(detail::scope_of(parent));
      child_.resume();
      if (child_.done()) return false;
      promise.set_continuation(parent);
      return true;
    }
    T await_resume() { return child_.promise().take(); }

   private:
    Handle child_;
  };
  Awaiter operator co_await() const noexcept { return Awaiter(handle_); }

 private:
  void destroy() noexcept {
    if (handle_ != nullptr) handle_.destroy();
  }

  Handle handle_ = nullptr;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}

inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

/// `co_await current_scope()`: the cancel scope that this coroutine runs in, or null. Never suspends.
class current_scope {
 public:
  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> self) noexcept {
    scope_ = detail::scope_of(self);
    return false;
  }
  CancelScope* await_resume() const noexcept { return scope_; }

 private:
  CancelScope* scope_ = nullptr;
};

/// Runs the task in another cancel scope than its parent's, when_all's or TaskScope's, which then cannot
/// cancel it unless `scope` lies within theirs.
template <class T>
Task<T> with_scope(CancelScope& scope, Task<T> task) {
  auto handle = task.release();
  handle.promise().set_scope(&scope);
  return Task<T>(handle);
}

}  // namespace cohort
