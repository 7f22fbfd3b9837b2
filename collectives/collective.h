// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/engine/task.h>

#include <algorithm>
#include <concepts>
#include <span>
#include <string_view>

namespace cohort {

class CommunicatorCore;
template <class T, class Request>
class ValueCollective;

/// A collective that has been asked for: `co_await` it where it is made, or std::move it there. It takes its
/// place in the communicator's order when it is awaited, not before.
///
/// Small messages between ranks of one host complete where they are awaited: the engine is not entered,
/// nothing is allocated, and there is no system call. Converts to Task<> for TaskScope; when_all and Stream
/// take it as it is.
///
/// The buffers belong to it until it completes. One that ends without having been awaited is a rank that the
/// others wait for: asserts, unless an exception is on its way; in a task or a stream it may be dropped.
///
/// Threads: its communicator's engine (asserted). Throws Mismatch, PeerDied, PeerAborted, LinkFault,
/// DeadlineExceeded, Cancelled, ...: whatever it is, the communicator cannot be used any more after it, on
/// any rank, and all ranks are given the same cause.
///
/// Request is a Call, or what is made of several messages, to which all of this applies together: a
/// TensorCall, a FunctionCall. It has an operator, `op`, and a `timeout`; the core chooses and runs it.
template <class Request>
class [[nodiscard]] CollectiveOf {
 public:
  class Awaiter;

  // Both throw InvalidArgument for arguments that are wrong on this rank alone.
  CollectiveOf(CommunicatorCore& core, Operator op,
               const CallArguments& arguments) requires std::same_as<Request, Call>;
  CollectiveOf(CommunicatorCore& core, const Request& request) requires(!std::same_as<Request, Call>);
  CollectiveOf(CollectiveOf&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)),
        call_(other.call_),
        may_be_dropped_(other.may_be_dropped_) {}
  CollectiveOf& operator=(CollectiveOf&&) = delete;
  ~CollectiveOf() {
    if (core_ != nullptr && !may_be_dropped_) [[unlikely]]
      report_never_awaited();
  }

  /// Another time limit than the communicator's. Not above zero: whatever has to be waited for is late.
  CollectiveOf&& with_deadline(Duration timeout) && {
    call_.timeout = std::max(timeout, Duration{1});  // zero is the communicator's
    return std::move(*this);
  }
  /// The algorithm of that name, for each message, on every rank. Throws InvalidArgument if it cannot run the
  /// call here.
  CollectiveOf&& with_algorithm(std::string_view algorithm) &&;
  /// Another promise of the result's bits than the communicator's, on every rank. Throws InvalidArgument if
  /// the call forces an algorithm that does not give it.
  CollectiveOf&& with_determinism(Determinism level) &&;

  /// The name of the algorithm that was selected, for as long as the communicator lives.
  [[nodiscard]] std::string_view algorithm() const& noexcept requires std::same_as<Request, Call>;
  /// The same of a call that is made only to be asked: it need not be awaited.
  [[nodiscard]] std::string_view algorithm() && noexcept requires std::same_as<Request, Call> {
    core_ = nullptr;
    return std::as_const(*this).algorithm();
  }

  /// Once: what was awaited is over.
  Awaiter operator co_await() && noexcept { return Awaiter(*this); }
  Awaiter operator co_await() & = delete;

  operator Task<>() && {  // NOLINT(google-explicit-constructor)
    may_be_dropped_ = true;
    return await_as_task(std::move(*this));
  }

 private:
  template <class T, class Other>
  friend class ValueCollective;

  /// To where they will be when it runs; of the same sizes.
  void move_buffers(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
    if constexpr (std::same_as<Request, Call>) {
      call_.recv = out.data();
      call_.send = call_.op->has_one_buffer ? call_.recv : const_cast<std::byte*>(in.data());
    } else if constexpr (requires { call_.function; }) {
      call_.arguments.in = in;
      call_.arguments.out = out;
    }
  }
  static Task<> await_as_task(CollectiveOf collective) { co_await std::move(collective); }
  /// False: the task does it.
  [[nodiscard]] bool complete_now(const CancelScope* scope);
  [[gnu::cold]] void report_never_awaited() const noexcept;

  CommunicatorCore* core_;  ///< null once it is awaited, or moved from
  Request call_;
  bool may_be_dropped_ = false;  ///< whoever has the task answers for it
  Task<> task_;
};

using Collective = CollectiveOf<Call>;

template <class Request>
class CollectiveOf<Request>::Awaiter {
 public:
  explicit Awaiter(CollectiveOf& collective) noexcept : collective_(collective) {}

  /// Only await_suspend() learns the scope of the waiter. Going on from there costs a store more than from
  /// here.
  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    if (collective_.complete_now(detail::scope_of(waiter))) return false;
    return Task<>::Awaiter(collective_.task_.handle()).await_suspend(waiter);
  }
  void await_resume() {
    if (collective_.task_) collective_.task_.handle().promise().take();
  }

 private:
  CollectiveOf& collective_;
};

}  // namespace cohort
