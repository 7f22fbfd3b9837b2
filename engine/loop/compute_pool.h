// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/loop/inbox.h>
#include <cohort/engine/task.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

namespace cohort {

class Engine;

/// A piece of computing for a pool thread, then a message back to the loop. Lives until it was delivered.
class ComputeJob : public InboxItem, public ListHook {
 public:
  /// On a pool thread. Throws nothing: results and exceptions are kept.
  virtual void compute() noexcept = 0;

 protected:
  ~ComputeJob() = default;
};

/// Threads that compute so that the loop need not. Started when a job finds none idle; first in, first out.
class ComputePool : Immovable {
 public:
  ComputePool(Inbox& inbox, unsigned threads) : inbox_(inbox), thread_count_(threads) {}
  /// Waits for the jobs that have begun; no job may be queued any more.
  ~ComputePool();

  /// Throws ResourceLimit if there is no thread and none can be had; with fewer than wanted it goes on.
  void submit(ComputeJob& job);
  [[nodiscard]] unsigned threads() const noexcept { return thread_count_; }
  /// How many of them run a job now.
  [[nodiscard]] unsigned computing() const noexcept { return computing_.load(std::memory_order_relaxed); }

 private:
  void start_thread();
  void work();

  Inbox& inbox_;
  const unsigned thread_count_;
  std::atomic<unsigned> computing_{0};

  std::mutex mutex_;
  std::condition_variable wakeup_;
  IntrusiveList<ComputeJob> jobs_;
  std::size_t queued_ = 0;
  std::size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// `co_await engine.offload(fn)`: runs fn on a pool thread and gives what it returns, or throws what it
/// throws.
///
/// A cancelled scope does not interrupt fn: the await ends when fn does, and then throws the cause.
template <class Function>
class Offload final : public ComputeJob, private Operation {
 public:
  using Result = std::invoke_result_t<Function&>;

  Offload(ComputePool& pool, Function function) : pool_(pool), function_(std::move(function)) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    if (!suspend(waiter, detail::scope_of(waiter))) return false;
    try {
      pool_.submit(*this);
    } catch (...) {
      unsuspend();
      throw;
    }
    return true;
  }
  Result await_resume() {
    throw_if_cancelled();
    if (exception_) std::rethrow_exception(exception_);
    if constexpr (!std::is_void_v<Result>) return std::move(*result_);
  }

 private:
  void compute() noexcept override {
    try {
      if constexpr (std::is_void_v<Result>)
        function_();
      else
        result_.emplace(function_());
    } catch (...) {
      exception_ = std::current_exception();
    }
  }
  void deliver() noexcept override { cancel_requested_ ? complete_cancelled() : complete(); }
  void request_cancel() noexcept override { cancel_requested_ = true; }

  ComputePool& pool_;
  Function function_;
  std::conditional_t<std::is_void_v<Result>, std::monostate, std::optional<Result>> result_;
  std::exception_ptr exception_;
  bool cancel_requested_ = false;
};

}  // namespace cohort
