// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/awaitable.h>
#include <cohort/engine/join_group.h>

#include <span>
#include <tuple>
#include <vector>

namespace cohort {

namespace detail {

template <class T>
using NonVoid = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
NonVoid<T> take_result(const Task<T>& task) {
  if constexpr (std::is_void_v<T>) {
    task.handle().promise().take();
    return {};
  } else {
    return task.handle().promise().take();
  }
}

/// Moves until it is awaited.
template <class... T>
class WhenAll {
 public:
  explicit WhenAll(Task<T>... tasks) : tasks_(std::move(tasks)...) {}
  WhenAll(WhenAll&& other) noexcept : tasks_(std::move(other.tasks_)) {}
  WhenAll& operator=(WhenAll&&) = delete;

  bool await_ready() const noexcept { return sizeof...(T) == 0; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> parent) {
    group_.open(scope_of(parent));
    std::apply([this](const auto&... task) { (group_.start(task.handle()), ...); }, tasks_);
    return group_.wait(parent);
  }
  /// The results in the order of the arguments, std::monostate for void; nothing if all are void.
  auto await_resume() {
    group_.rethrow_if_failed();
    if constexpr (!(std::is_void_v<T> && ...))
      return std::apply([](const auto&... task) { return std::tuple<NonVoid<T>...>(take_result(task)...); },
                        tasks_);
  }

 private:
  JoinGroup group_;
  std::tuple<Task<T>...> tasks_;
};

class WhenAllRange {
 public:
  explicit WhenAllRange(std::span<Task<>> tasks) noexcept : tasks_(tasks) {}
  WhenAllRange(WhenAllRange&& other) noexcept : tasks_(other.tasks_) {}
  WhenAllRange& operator=(WhenAllRange&&) = delete;

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

/// Runs tasks, and whatever else can be awaited and moved, such as collectives, concurrently and completes
/// when all are over: `auto [a, b] = ...` after binding the whole result.
///
/// The first failure cancels the others; when all have ended it is thrown. Tasks that complete at once cost
/// no hop. Like a collective it can be awaited where it is made, or enqueued on a Stream.
template <Awaitable... A>
[[nodiscard]] detail::WhenAll<AwaitResult<A>...> when_all(A... awaitables) {
  return detail::WhenAll<AwaitResult<A>...>(detail::as_task(std::move(awaitables))...);
}

/// The same for any number of tasks, which the caller keeps.
[[nodiscard]] inline detail::WhenAllRange when_all(std::span<Task<>> tasks) {
  return detail::WhenAllRange(tasks);
}
[[nodiscard]] inline detail::WhenAllRange when_all(std::vector<Task<>>& tasks) {
  return detail::WhenAllRange(std::span<Task<>>(tasks));
}

}  // namespace cohort
