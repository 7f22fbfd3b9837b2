// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/p2p/message_request.h>
#include <cohort/engine/task.h>

#include <algorithm>
#include <type_traits>

namespace cohort {

class CommunicatorCore;

namespace detail {

/// What send(), recv(), recv_any() and call_message() have in common.
class TransferBase {
 public:
  TransferBase(const TransferBase&) = delete;
  TransferBase& operator=(const TransferBase&) = delete;

 protected:
  /// Throws InvalidArgument for a rank that is none or this one, and for no memory.
  TransferBase(CommunicatorCore& core, bool sends, Rank peer, std::int32_t tag, std::byte* data,
               std::size_t bytes);
  /// Also of this rank's messages to itself.
  TransferBase(CommunicatorCore& core, const MessageRequest& request);
  TransferBase(TransferBase&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), request_(other.request_) {}

  /// False: the task does it.
  [[nodiscard]] bool complete_now(const CancelScope* scope);

  CommunicatorCore* core_;  ///< null once it is awaited, or moved from
  MessageRequest request_;
  Task<Envelope> task_;
};

}  // namespace detail

/// A message that has been asked for: `co_await` it where it is made, or std::move it there. Nothing happens
/// before. With Result Rank it gives the rank that the message is from, with Envelope all that is known of
/// it.
///
/// A small one between ranks of one host that is there, or that has room, completes where it is awaited. The
/// buffer belongs to it until it completes. Messages between two ranks are matched by tag, in the order in
/// which they were awaited; any number may be under way.
///
/// Threads: its communicator's engine (asserted). Throws Mismatch, PeerDied, PeerAborted, LinkFault,
/// DeadlineExceeded, ...: the communicator cannot be used any more then, on any rank. Cancelled leaves it
/// usable, if the other end had not heard of the message.
template <class Result>
class [[nodiscard]] Transfer : private detail::TransferBase {
 public:
  Transfer(CommunicatorCore& core, bool sends, Rank peer, std::int32_t tag, std::byte* data,
           std::size_t bytes)
      : TransferBase(core, sends, peer, tag, data, bytes) {}
  Transfer(CommunicatorCore& core, const MessageRequest& request) : TransferBase(core, request) {}
  Transfer(Transfer&&) noexcept = default;

  /// Another time limit than the communicator's. Not above zero: whatever has to be waited for is late.
  Transfer&& with_deadline(Duration timeout) && {
    request_.timeout = std::max(timeout, Duration{1});  // zero is the communicator's
    return std::move(*this);
  }

  class Awaiter {
   public:
    explicit Awaiter(Transfer& transfer) noexcept : transfer_(transfer) {}

    bool await_ready() const noexcept { return false; }
    template <class P>
    bool await_suspend(std::coroutine_handle<P> waiter) {
      if (transfer_.complete_now(detail::scope_of(waiter))) return false;
      return Task<Envelope>::Awaiter(transfer_.task_.handle()).await_suspend(waiter);
    }
    Result await_resume() {
      const MessageRequest& request = transfer_.request_;
      [[maybe_unused]] Envelope envelope(request.peer, request.tag, request.bytes);
      if (transfer_.task_) envelope = transfer_.task_.handle().promise().take();
      if constexpr (std::is_same_v<Result, Envelope>)
        return envelope;
      else if constexpr (!std::is_void_v<Result>)
        return envelope.from;
    }

   private:
    Transfer& transfer_;
  };

  /// Once: what was awaited is over.
  Awaiter operator co_await() && noexcept { return Awaiter(*this); }
  Awaiter operator co_await() & = delete;

  operator Task<Result>() && {
    return await_as_task(std::move(*this));
  }  // NOLINT(google-explicit-constructor)

 private:
  static Task<Result> await_as_task(Transfer transfer) { co_return co_await std::move(transfer); }
};

}  // namespace cohort
