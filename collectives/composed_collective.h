// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/task.h>

#include <string_view>
#include <utility>

namespace cohort {

class CommunicatorCore;

/// A collective that is made of several messages, asked for: awaited, given to when_all, a TaskScope or a
/// Stream as a Collective is, and with its promises on order, failure, deadline and cancellation, for all
/// messages together. What the request names belongs to it until it completes.
///
/// Request has an operator, `op`, a `timeout` and the name of an `algorithm`; the core checks and runs it.
template <class Request>
class [[nodiscard]] ComposedCollective {
 public:
  class Awaiter;

  /// Throws InvalidArgument for arguments that are wrong on this rank alone.
  ComposedCollective(CommunicatorCore& core, const Request& call);
  ComposedCollective(ComposedCollective&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)),
        call_(other.call_),
        may_be_dropped_(other.may_be_dropped_) {}
  ComposedCollective& operator=(ComposedCollective&&) = delete;
  ~ComposedCollective() {
    if (core_ != nullptr && !may_be_dropped_) [[unlikely]]
      report_never_awaited();
  }

  /// Another time limit than the communicator's, for all messages together.
  ComposedCollective&& with_deadline(Duration timeout) && {
    call_.timeout = timeout;
    return std::move(*this);
  }
  /// The algorithm of that name, for each message, on every rank. Throws InvalidArgument if it cannot run one
  /// of them here.
  ComposedCollective&& with_algorithm(std::string_view algorithm) &&;

  /// Once: what was awaited is over.
  Awaiter operator co_await() && noexcept;
  Awaiter operator co_await() & = delete;

  operator Task<>() && {  // NOLINT(google-explicit-constructor)
    may_be_dropped_ = true;
    return await_as_task(std::move(*this));
  }

 private:
  static Task<> await_as_task(ComposedCollective collective);
  void start();
  [[gnu::cold]] void report_never_awaited() const noexcept;

  CommunicatorCore* core_;  ///< null once it is awaited, or moved from
  Request call_;
  bool may_be_dropped_ = false;  ///< whoever has the task answers for it
  Task<> task_;
};

template <class Request>
class ComposedCollective<Request>::Awaiter {
 public:
  explicit Awaiter(ComposedCollective& collective) noexcept : collective_(collective) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    collective_.start();
    return Task<>::Awaiter(collective_.task_.handle()).await_suspend(waiter);
  }
  void await_resume() { collective_.task_.handle().promise().take(); }

 private:
  ComposedCollective& collective_;
};

template <class Request>
auto ComposedCollective<Request>::operator co_await() && noexcept -> Awaiter {
  return Awaiter(*this);
}

}  // namespace cohort
