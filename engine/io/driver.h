// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/operation.h>
#include <cohort/engine/task.h>

#include <cstdint>
#include <string>
#include <utility>

namespace cohort {

class Driver;

/// Linux moves no more at once, and lengths and results of requests have 32 bits.
inline constexpr std::size_t kMostBytesAtOnce = 0x7ffff000;

enum class IoKind : std::uint8_t {
  read,          ///< address, bytes
  recv,          ///< address, bytes, flags
  send,          ///< address, bytes, flags
  recv_message,  ///< address = msghdr, flags
  send_message,  ///< address = msghdr, flags
  connect,       ///< address = sockaddr, bytes = its length
  poll,          ///< flags = poll mask; result: what is ready
  futex_wait,    ///< address = 32-bit word, expected = the value that means "keep sleeping"
};

/// One request to the kernel. Lives in the awaiting frame until the kernel has answered, cancelled or not.
///
/// `co_await IoOperation(...)` gives the system call's result, or minus the error number; it throws only when
/// its scope was cancelled. Threads: the owning engine.
class IoOperation final : public Operation {
 public:
  struct Request {
    IoKind kind{};
    int descriptor = -1;
    void* address = nullptr;
    std::size_t bytes = 0;
    std::uint32_t flags = 0;
    std::uint32_t expected = 0;
  };

  IoOperation(Driver& driver, const Request& request) noexcept : request_(request), driver_(driver) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    return start(waiter, detail::scope_of(waiter));
  }
  int await_resume();

  // For drivers:
  [[nodiscard]] const Request& request() const noexcept { return request_; }
  /// The kernel is done with the request and its memory.
  void finish(int result) noexcept;

 private:
  bool start(std::coroutine_handle<> waiter, CancelScope* scope) noexcept;
  void request_cancel() noexcept override;

  friend class EndedOperations;

  Request request_;
  Driver& driver_;
  int result_ = 0;
  bool cancel_requested_ = false;
  IoOperation* next_ended_ = nullptr;
};

/// A driver's queue of requests that are over and have not been told so: linked in them, it takes no memory.
class EndedOperations {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push(IoOperation& operation, int result) noexcept {
    operation.result_ = result;
    operation.next_ended_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_ended_) = &operation;
    last_ = &operation;
  }
  /// Finishes those that are there now. Whether there was any.
  bool finish_all() noexcept {
    IoOperation* next = std::exchange(first_, nullptr);
    const bool any = next != nullptr;
    while (next != nullptr) {
      IoOperation& operation = *std::exchange(next, next->next_ended_);
      operation.finish(operation.result_);
    }
    return any;
  }

 private:
  IoOperation* first_ = nullptr;
  IoOperation* last_ = nullptr;
};

/// The engine's way to the kernel: io_uring, epoll, or a simulator. Threads: the loop's, but for
/// wake().
class Driver {
 public:
  virtual ~Driver() = default;

  /// Takes a request; it will be finished exactly once. Never blocks: a full queue waits inside the driver.
  virtual void submit(IoOperation& operation) noexcept = 0;
  /// Asks for an early end of a submitted request, which then finishes with -ECANCELED unless it was faster.
  virtual void cancel(IoOperation& operation) noexcept = 0;
  /// Hands over what was submitted and finishes what has completed, without sleeping. True if anything
  /// completed.
  virtual bool poll() noexcept = 0;
  /// Whether poll() would find something to do. Looks, and enters nothing: for loops that poll seldom.
  [[nodiscard]] virtual bool has_news() const noexcept = 0;
  /// Sleeps until something completes, wake() is called, or the moment comes. Finishes what has completed.
  virtual void sleep(TimePoint now, TimePoint until) noexcept = 0;
  /// Ends a sleep() from any thread.
  virtual void wake() noexcept = 0;

  /// Readable once something has completed: for foreign event loops. Made at the first call, and costs a
  /// little from then on. -1 where there is none. Throws SystemError, ResourceLimit.
  [[nodiscard]] virtual int descriptor() { return -1; }
  /// Before poll(): what completes from now on makes it readable again.
  virtual void reset_descriptor() noexcept {}
  /// Whether IoKind::futex_wait works here.
  [[nodiscard]] virtual bool has_futex() const noexcept = 0;
  /// How this driver talks to the kernel, for people: "io_uring (single issuer, deferred task run, futex)".
  [[nodiscard]] virtual std::string description() const = 0;
};

}  // namespace cohort
