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

/// Runs tasks, and whatever else can be awaited and moved, such as collectives, concurrently and completes
/// when all are over: `auto [a, b] = ...` after binding the whole result.
///
/// The first failure cancels the others; when all have ended it is thrown. Tasks that complete at once cost
/// no hop.
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
