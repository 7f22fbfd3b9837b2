// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/io/driver.h>
#include <cohort/engine/io/network.h>
#include <cohort/engine/loop/compute_pool.h>
#include <cohort/engine/loop/core_offers.h>
#include <cohort/engine/loop/core_peers.h>
#include <cohort/engine/loop/inbox.h>
#include <cohort/engine/loop/pace.h>
#include <cohort/engine/loop/poll_list.h>
#include <cohort/engine/loop/ready_queue.h>
#include <cohort/engine/loop/source.h>
#include <cohort/engine/loop/spin_budget.h>
#include <cohort/engine/system/platform.h>
#include <cohort/engine/task.h>
#include <cohort/engine/task_scope.h>
#include <cohort/engine/timer.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace cohort {

class SleepAwaiter;
class TurnAwaiter;

struct EngineOptions {
  std::unique_ptr<Driver> driver{};      ///< null: io_uring, or epoll (make_driver())
  std::unique_ptr<Clock> clock{};        ///< null: CLOCK_MONOTONIC
  std::unique_ptr<Network> network{};    ///< null: the kernel's
  std::unique_ptr<Platform> platform{};  ///< null: the real one
  unsigned compute_threads = 0;          ///< 0: COHORT_COMPUTE_THREADS, or one per core
  Duration spin{-1};  ///< how long an idle loop spins before it sleeps; negative: COHORT_SPIN_US, or learnt
};

/// One thread, one loop, and everything that runs on it. Only the loop resumes coroutines.
///
/// A turn: run what was ready at its start, expire timers, drain the inbox, poll the driver and the sources;
/// if there was nothing, spin for a while, then sleep until something completes. Who runs for long asks now
/// and then is_turn_over().
///
/// Threads: created, run and destroyed on one; post() from any. Lifetime: outlives every task, operation and
/// communicator on it.
class Engine : Immovable {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine();

  /// The engine of this thread; asserts that there is one.
  [[nodiscard]] static Engine& current() noexcept;
  /// Whether it is this one.
  [[nodiscard]] bool is_current() const noexcept;

  /// Drives the loop in this thread until the task is over, then finishes what runs in background(), such as
  /// a communicator saying goodbye. Returns the task's result; throws what it threw, or else what failed in
  /// background().
  ///
  /// Not from a task of this engine (asserted); another engine of the thread may run inside one. SteppedRun
  /// does the same in an event loop of somebody else's.
  template <class T>
  T run(Task<T> task);

  [[nodiscard]] TimePoint now() noexcept { return clock_->now(); }
  /// Suspends for at least that long; zero lets everything else that is ready run first.
  [[nodiscard]] SleepAwaiter sleep_for(Duration duration) noexcept;
  [[nodiscard]] SleepAwaiter sleep_until(TimePoint when) noexcept;

  /// Whether this turn of the loop has lasted for 50 us and something else waits: a ready coroutine, a timer
  /// that is due, a message of another thread, the kernel's answer, what a source polls for. Then whoever
  /// runs on should let_others_run(). The turn's time begins with the first question. Reads the clock, so ask
  /// every few microseconds.
  [[nodiscard]] bool is_turn_over() noexcept { return is_turn_over(now()); }
  /// The same for whoever has read the clock.
  [[nodiscard]] bool is_turn_over(TimePoint now) noexcept;
  /// Suspends for a turn or a few: what waits runs first, and what it brings on the way. Throws the cause of
  /// the task's scope if that was cancelled meanwhile.
  [[nodiscard]] TurnAwaiter let_others_run() noexcept;

  /// Runs fn on a pool thread: `const int x = co_await engine.offload(fn)`. fn is kept in the awaiting frame.
  template <class Function>
  [[nodiscard]] Offload<Function> offload(Function fn) {
    return Offload<Function>(pool_, std::move(fn));
  }

  /// From any thread: runs fn on the loop. fn must not throw. What was not run when the engine ends is
  /// dropped.
  void post(std::function<void()> fn);

  // For primitives built on the engine:
  void schedule(std::coroutine_handle<> handle) noexcept { ready_.push(handle); }
  /// After what the next turns bring; for let_others_run().
  void schedule_after_others(std::coroutine_handle<> handle) noexcept { patient_.push(handle); }
  [[nodiscard]] bool has_ready() const noexcept { return !ready_.empty(); }
  /// For whoever moves bytes in parts.
  [[nodiscard]] Pace& pace() noexcept { return pace_; }
  [[nodiscard]] Driver& driver() noexcept { return *driver_; }
  [[nodiscard]] Clock& clock() noexcept { return *clock_; }
  [[nodiscard]] Network& network() noexcept { return *network_; }
  [[nodiscard]] Platform& platform() noexcept { return *platform_; }
  [[nodiscard]] TimerQueue& timers() noexcept { return timers_; }
  /// Random: tells engines apart, of whatever process or machine.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] Inbox& inbox() noexcept { return inbox_; }
  [[nodiscard]] ComputePool& compute_pool() noexcept { return pool_; }
  /// Services that live as long as the engine needs them; run() ends only after they did. The failure of one
  /// leaves the others alone.
  [[nodiscard]] TaskScope& background() noexcept { return background_; }
  void add_source(Source& source) noexcept { sources_.push_back(source); }

  /// While oversubscribed (more threads want a core of this machine than it has), idle turns give the core
  /// away instead of spinning on it.
  void set_oversubscribed(bool crowded) noexcept { is_oversubscribed_ = crowded; }
  /// How many engines there are for each core of this machine, at least: a communicator knows.
  void expect_engines_per_core(double engines) noexcept {
    engines_per_core_ = std::max(engines_per_core_, engines);
  }
  /// As it was set, or because functions run on the compute pool, and where as many run for every engine the
  /// cores do not suffice. Changes from call to call.
  [[nodiscard]] bool is_oversubscribed() const noexcept {
    const unsigned computing = pool_.computing();
    return is_oversubscribed_ || (computing != 0 && engines_per_core_ * (1 + computing) > 1);
  }
  /// How long an idle loop spins before it sleeps: what was set, or, during calls, what has proved to pay.
  [[nodiscard]] Duration spin_time() const noexcept {
    return calls_ != 0 && !is_oversubscribed() ? spin_budget_.current() : spin_budget_.least();
  }
  [[nodiscard]] SpinBudget& spin_budget() noexcept { return spin_budget_; }
  /// What the loop slept for was posted then, by this engine's clock: for sources, while they disarm.
  void note_wake(TimePoint posted) noexcept;
  /// What a call waits for has come from a peer, and only the kernel knows since when it was there.
  void note_answer() noexcept;

  /// Which engines share this one's core: whoever has memory in common with them says so.
  [[nodiscard]] CorePeers& core_peers() noexcept { return core_peers_; }
  /// Whoever spins for a peer asks this now and then. If one was last seen on this core, it may be the one
  /// that is waited for, so the core is given away for a moment. False: somebody else takes it then, and it
  /// is better to sleep, which the loop does. Costs some nanoseconds.
  [[nodiscard]] bool may_spin_on() noexcept {
    const bool may = core_peers_.empty() || !core_peers_.meet_on(platform_->core()) || hand_core_over();
    return may && (!has_other_hosts_ || may_spin_for_other_hosts());
  }
  /// A job of this engine has ranks on other hosts, which may be containers of this machine: no core is kept
  /// from them.
  void expect_other_hosts() noexcept { has_other_hosts_ = true; }

 private:
  friend class CallUnderWay;
  friend class SteppedRun;
  class RootTask;

  /// While run() is on the stack: this is the thread's engine.
  class Activation : Immovable {
   public:
    explicit Activation(Engine& engine) noexcept;
    ~Activation();

   private:
    Engine& engine_;
    Engine* const previous_;
  };

  template <class T>
  void drive(Task<T>& task);
  void drive_until(const bool& done);
  /// What failed in background(), or null.
  std::exception_ptr settle_background();
  bool turn() noexcept;
  /// Lets the first of those that let others run go on, if it is its time.
  void admit_patient() noexcept;
  [[nodiscard]] bool has_waiting(TimePoint now) noexcept;
  void idle() noexcept;
  [[nodiscard]] bool hand_core_over() noexcept;
  [[nodiscard]] bool may_spin_for_other_hosts() noexcept;
  void sleep() noexcept;
  [[nodiscard]] bool may_learn() const noexcept;
  /// Makes sure that whatever comes from now on wakes the driver. False: something is there already.
  [[nodiscard]] bool arm() noexcept;
  void disarm() noexcept;

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Platform> platform_;
  SpinBudget spin_budget_;
  CorePeers core_peers_;
  CoreOffers core_offers_;
  bool has_other_hosts_ = false;
  std::size_t calls_ = 0;  ///< under way
  Duration last_wait_{0};  ///< that ended in a sleep: zero once it was counted, or another one has begun
  Engine* const previous_;
  const std::uint64_t number_;

  ReadyQueue ready_;
  ReadyQueue patient_;             ///< that let others run first
  unsigned turns_for_others_ = 0;  ///< since one of these went on
  TimerQueue timers_;
  PollList<Source> sources_;
  bool is_running_ = false;
  bool is_oversubscribed_ = false;
  double engines_per_core_ = 0;
  unsigned idle_turns_ = 0;
  TimePoint idle_since_{};

  std::uint64_t turns_ = 0;
  std::uint64_t timed_turn_ = ~std::uint64_t{0};  ///< the one in which is_turn_over() was asked last
  TimePoint turn_began_{};                        ///< when it was asked there first
  Pace pace_{*this};

  Inbox inbox_;
  ComputePool pool_;
  TaskScope background_{nullptr, TaskScope::OnFailure::keep_others};
};

/// While it lives, a call of the user's waits for what peers bring: then the loop spins for as long as that
/// pays.
class CallUnderWay : Immovable {
 public:
  explicit CallUnderWay(Engine& engine) noexcept : engine_(engine) { ++engine_.calls_; }
  ~CallUnderWay() { --engine_.calls_; }

 private:
  Engine& engine_;
};

/// `co_await engine.sleep_for(10ms)`.
class SleepAwaiter final : public Operation, private Timer {
 public:
  SleepAwaiter(Engine& engine, TimePoint when) noexcept : engine_(engine), wake_at_(when) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    engine_.timers().arm(*this, wake_at_);
    if (suspend(waiter, detail::scope_of(waiter))) return true;
    engine_.timers().disarm(*this);
    return false;
  }
  void await_resume() const { throw_if_cancelled(); }

 private:
  void expire() noexcept override { complete(); }
  void request_cancel() noexcept override {
    engine_.timers().disarm(*this);
    complete_cancelled();
  }

  Engine& engine_;
  TimePoint wake_at_;
};

inline SleepAwaiter Engine::sleep_until(TimePoint when) noexcept { return SleepAwaiter(*this, when); }
inline SleepAwaiter Engine::sleep_for(Duration duration) noexcept {
  return SleepAwaiter(*this, after(now(), duration));
}

/// `co_await engine.let_others_run()`.
class TurnAwaiter {
 public:
  explicit TurnAwaiter(Engine& engine) noexcept : engine_(engine) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  void await_suspend(std::coroutine_handle<P> waiter) noexcept {
    scope_ = detail::scope_of(waiter);
    engine_.schedule_after_others(waiter);
  }
  void await_resume() const {
    if (scope_ != nullptr) scope_->throw_if_cancelled();
  }

 private:
  Engine& engine_;
  CancelScope* scope_ = nullptr;
};

inline TurnAwaiter Engine::let_others_run() noexcept { return TurnAwaiter(*this); }

/// Tells the loop when the outermost task is over.
class Engine::RootTask final : public detail::TaskOwner {
 public:
  void task_finished(detail::PromiseBase&) noexcept override { done = true; }
  bool done = false;
};

template <class T>
void Engine::drive(Task<T>& task) {
  RootTask root;
  task.handle().promise().set_owner(&root);
  task.handle().resume();
  drive_until(root.done);
}

template <class T>
T Engine::run(Task<T> task) {
  const Activation active(*this);
  drive(task);
  const std::exception_ptr background_failure = settle_background();
  auto& promise = task.handle().promise();
  if (background_failure && !promise.exception()) std::rethrow_exception(background_failure);
  return promise.take();
}

/// `co_await with_deadline(30s, task)`: DeadlineExceeded in every wait inside when the time is over.
template <class T>
Task<T> with_deadline(Duration duration, Task<T> task) {
  CancelScope* around = co_await current_scope();
  Engine& engine = Engine::current();
  CancelScope scope(around);
  scope.set_deadline(engine, after(engine.now(), duration));
  Task<T> inside = with_scope(scope, std::move(task));
  co_return co_await inside;
}

}  // namespace cohort
