// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/awaitable.h>
#include <cohort/engine/engine.h>
#include <cohort/notify/event.h>

#include <concepts>
#include <string>

namespace cohort {

/// An ordered lane of work: what is enqueued runs one after the other; streams run beside each other.
///
/// Compute functions (on pool threads) and coroutines (on the engine) mix freely. The first failure drops
/// what is queued behind it; synchronize() throws it, and after that the stream can be used again. No
/// allocation besides recycled coroutine frames. Threads: one engine. Lifetime: synchronized, or never used,
/// before it ends (asserted).
class Stream final : public detail::TaskOwner, private Operation {
 public:
  explicit Stream(Engine& engine, std::string name = "stream");
  ~Stream();

  /// Behind everything enqueued so far: a coroutine on the engine.
  void enqueue(Task<> task);
  /// The same for anything that can be awaited, such as comm.all_reduce(...) or when_all(...). It is moved
  /// into the stream.
  template <Awaitable A>
  requires(!std::invocable<A&>) void enqueue(A awaitable) {
    static_assert(
        !requires { A::kIsForItsResult; },
        "a stream drops the result: give the call a buffer for it, as in all_reduce(std::span(&x, 1), op)");
    if constexpr (std::convertible_to<A, Task<>>)
      enqueue(Task<>(std::move(awaitable)));
    else if constexpr (std::convertible_to<A, Task<AwaitResult<A>>>)
      enqueue(await_it(Task<AwaitResult<A>>(std::move(awaitable))));
    else
      enqueue(await_it(std::move(awaitable)));
  }
  /// The same for a function that returns a task, called when its turn comes. It is moved into the stream.
  template <std::invocable<> Function>
  requires std::same_as<std::invoke_result_t<Function&>, Task<>>
  void enqueue(Function fn) { enqueue(call_it(std::move(fn))); }
  /// Behind everything enqueued so far: a plain function on a pool thread.
  template <std::invocable<> Function>
  void compute(Function fn) {
    enqueue(offload_it(engine_, std::move(fn)));
  }

  /// Marks this point: the event's waiters go on when everything enqueued so far is done.
  void record(Event& event);
  /// What is enqueued from here on waits for the marks recorded on the event up to now.
  void wait(Event& event);

  class SynchronizeAwaiter;
  /// Suspends until everything enqueued is done (also what is enqueued meanwhile); throws the first failure.
  [[nodiscard]] SynchronizeAwaiter synchronize() noexcept;

  /// Ends what runs with Cancelled and drops the rest; synchronize() throws it, unless what ran ended well
  /// all the same and nothing was dropped. What is enqueued when that is over is not concerned, nor an idle
  /// stream.
  void cancel() noexcept {
    if (!is_idle()) scope_->cancel();
  }

  [[nodiscard]] bool is_idle() const noexcept { return running_ == nullptr; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }

  void task_finished(detail::PromiseBase& promise) noexcept override;

 private:
  template <class A>
  static Task<> await_it(A awaitable) {
    co_await std::move(awaitable);
  }
  template <class Function>
  static Task<> call_it(Function fn) {
    Task<> task = fn();
    co_await task;
  }
  template <class Function>
  static Task<> offload_it(Engine& engine, Function fn) {
    auto job = engine.offload(std::ref(fn));
    co_await job;
  }

  void start_next() noexcept;
  void drop_queue() noexcept;
  void renew_scope() noexcept;
  /// Whoever synchronizes is to stop: so is the work, which may still own buffers; its end ends the wait.
  void request_cancel() noexcept override;

  Engine& engine_;
  const std::string name_;
  std::optional<CancelScope> scope_;
  IntrusiveList<detail::PromiseBase> queue_;
  detail::PromiseBase* running_ = nullptr;
  std::exception_ptr failure_;
};

class Stream::SynchronizeAwaiter {
 public:
  explicit SynchronizeAwaiter(Stream& stream) noexcept : stream_(stream) {}
  bool await_ready() const noexcept { return stream_.is_idle(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    return suspend(waiter, detail::scope_of(waiter));
  }
  void await_resume();

 private:
  bool suspend(std::coroutine_handle<> waiter, CancelScope* scope) noexcept;

  Stream& stream_;
};

inline Stream::SynchronizeAwaiter Stream::synchronize() noexcept { return SynchronizeAwaiter(*this); }

}  // namespace cohort
