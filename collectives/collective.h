// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/engine/task.h>

#include <string_view>

namespace cohort {

class CommunicatorCore;

/// A collective that has been asked for: `co_await` it, once. It takes its place in the communicator's order
/// when it is awaited, not before.
///
/// Small messages between ranks of one host complete where they are awaited: the engine is not entered,
/// nothing is allocated, and there is no system call. Converts to Task<> for when_all and TaskScope, and can
/// be enqueued on a Stream. The buffers belong to it until it completes. Throws Mismatch, PeerDied,
/// PeerAborted, LinkFault, DeadlineExceeded, Cancelled, ...: whatever it is, the communicator cannot be used
/// any more after it, on any rank, and all ranks are given the same cause.
class [[nodiscard]] Collective {
 public:
  /// Throws InvalidArgument for arguments that are wrong on this rank alone.
  Collective(CommunicatorCore& core, Operator op, const CallArguments& arguments);

  /// Another time limit than the communicator's.
  Collective&& with_deadline(Duration timeout) && {
    call_.timeout = timeout;
    return std::move(*this);
  }
  /// The algorithm of that name, on every rank. Throws InvalidArgument if it cannot run the call here.
  Collective&& with_algorithm(std::string_view algorithm) &&;

  /// The name of the algorithm that was selected, for as long as the communicator lives.
  [[nodiscard]] std::string_view algorithm() const noexcept;

  /// Only await_suspend() learns the scope of the waiter. Going on from there costs a store more than from
  /// here.
  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    if (complete_now(detail::scope_of(waiter))) return false;
    return Task<>::Awaiter(task_.handle()).await_suspend(waiter);
  }
  void await_resume() {
    if (task_) task_.handle().promise().take();
  }

  operator Task<>() && { return await_as_task(std::move(*this)); }  // NOLINT(google-explicit-constructor)

 private:
  static Task<> await_as_task(Collective collective) { co_await std::move(collective); }
  /// False: the task does it.
  [[nodiscard]] bool complete_now(const CancelScope* scope);

  CommunicatorCore* core_;
  Call call_;
  bool has_begun_ = false;
  Task<> task_;
};

}  // namespace cohort
