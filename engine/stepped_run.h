// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

namespace cohort {

/// Drives an engine from a foreign event loop, of poll(2), epoll or a toolkit, in place of Engine::run.
///
///   SteppedRun run(engine, serve());
///   while (!run.is_over()) {
///     pollfd ready{.fd = run.descriptor(), .events = POLLIN, .revents = 0};  // beside the loop's own
///     ::poll(&ready, 1, run.timeout_ms());
///     run.step();
///   }
///   run.take();
///
/// Runs the task, and then what is in background(), as run() does. Nothing of the engine happens outside of
/// step(), so collectives wait, and peers for this rank, until the loop comes back to it.
///
/// Threads: the engine's; where its driver is epoll any, one at a time, and the descriptor may be waited for
/// meanwhile. One at a time on an engine, and no run() meanwhile. Lifetime: over before it ends (asserted).
/// Costs: a sleep of the engine's for each wait of the loop's; it does not spin.
class SteppedRun : Immovable {
 public:
  /// Starts the task, which runs until its first suspension. Asserts that the engine's driver has a
  /// descriptor: io_uring's has.
  SteppedRun(Engine& engine, Task<> task);
  ~SteppedRun();

  /// Runs what is ready, for a bounded number of turns, and never sleeps.
  void step();
  /// The same until `done`, as Engine::run would: it spins, and sleeps in the engine.
  void run_until(const bool& done);
  /// Calls it as if the loop did: what it does may resume coroutines and spawn tasks. Asks nothing of the
  /// engine; whoever goes on to wait asks next_deadline().
  template <class Function>
  void enter(Function&& function) {
    const Engine::Activation active(engine_);
    function();
  }
  /// All is over, background() too: take() is left to do.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  /// Throws what the task threw, or else what failed in background().
  void take() const;

  /// Readable when step() has something to do. The same for the engine's whole life.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// When step() has to be called at the latest: kNever, or the first timer's moment; one in the past if
  /// there is more to do now. Ask right before the wait: what the loop's own callbacks did on the engine
  /// since step(), such as a post or a spawn, counts only then.
  [[nodiscard]] TimePoint next_deadline() noexcept;
  /// The same for poll(2) and epoll_wait(2): -1, 0, or milliseconds, rounded up.
  [[nodiscard]] int timeout_ms() noexcept;

 private:
  class Root final : public detail::TaskOwner {
   public:
    explicit Root(bool& is_over) noexcept : is_over_(is_over) {}
    void task_finished(detail::PromiseBase&) noexcept override { is_over_ = true; }

   private:
    bool& is_over_;
  };

  static Task<> run_with_background(Engine& engine, Task<> task);
  void prepare_to_wait() noexcept;

  Engine& engine_;
  const int descriptor_;
  Task<> task_;
  bool is_over_ = false;
  bool is_armed_ = false;  ///< whatever comes makes the descriptor readable
  Root root_{is_over_};
};

}  // namespace cohort
