// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <concepts>
#include <utility>

namespace cohort {

namespace detail {

/// What `co_await std::move(it)` asks whether it is ready.
template <class A>
decltype(auto) awaiter_of(A&& it) {
  if constexpr (requires { std::forward<A>(it).operator co_await(); })
    return std::forward<A>(it).operator co_await();
  else if constexpr (requires { operator co_await(std::forward<A>(it)); })
    return operator co_await(std::forward<A>(it));
  else
    return std::forward<A>(it);
}

}  // namespace detail

/// What can be awaited and moved to where it is: a Task, a Collective, an awaiter without an operation of its
/// own inside.
template <class A>
concept Awaitable = std::move_constructible<A> && requires(A&& it) {
  detail::awaiter_of(std::forward<A>(it)).await_ready();
  detail::awaiter_of(std::forward<A>(it)).await_resume();
};

/// What awaiting an rvalue of it gives.
template <Awaitable A>
using AwaitResult = decltype(detail::awaiter_of(std::declval<A>()).await_resume());

namespace detail {

template <class A>
Task<AwaitResult<A>> await_it(A awaitable) {
  co_return co_await std::move(awaitable);
}

/// A task that awaits it; itself if it is one.
template <Awaitable A>
Task<AwaitResult<A>> as_task(A awaitable) {
  if constexpr (std::convertible_to<A, Task<AwaitResult<A>>>)
    return awaitable;
  else
    return await_it(std::move(awaitable));
}

}  // namespace detail

}  // namespace cohort
