// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/fork_detector.h>
#include <cohort/bindings/session/interrupt.h>
#include <cohort/bindings/session/work.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/stepped_run.h>
#include <cohort/notify/notify.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

namespace cohort::bindings {

/// An engine that several threads drive in turn, for programs that are no coroutines.
///
/// Whoever waits for something drives the engine itself, so that a blocking call is as fast as a coroutine's.
/// While nobody does, a thread of the loop's own, the keeper, sleeps until the engine needs a turn: for what
/// was started and not waited for, timers, and news of peers.
///
/// One thread drives at a time; the others hand over what they want and wait. The engine is on epoll, whose
/// requests belong to no thread.
///
/// Threads: any. In a child of fork() everything throws InvalidArgument, and ending it does nothing.
class SharedLoop : Immovable {
 public:
  /// Throws what making an engine throws, and ResourceLimit for the thread.
  SharedLoop();
  /// Waits for what was started. Not from a body of a work, nor in a child of fork().
  ~SharedLoop();

  /// Carries it out and waits for it: drives if nobody else does. Throws what it threw. `interrupt` may be
  /// null.
  void run(Work& work, Interrupt* interrupt);
  /// Begins it, in the order of the caller's calls; it is over by itself, maybe before this returns. Where
  /// nothing else is under way and nobody drives, the caller stays with it for so long: what is over soon
  /// needs no other thread.
  void start(std::shared_ptr<Work> work, Duration patience = Duration::zero());
  /// Waits for what was started; whether it is over by then.
  bool wait(const std::shared_ptr<Work>& work, TimePoint until, Interrupt* interrupt);
  /// The same for the first of several to be over.
  bool wait_any(std::span<const std::shared_ptr<Work>> works, TimePoint until);
  /// Gives what was started a few turns, if nobody drives: for whoever asks again and again whether it is
  /// over. Whether it could.
  bool nudge();
  /// Asks what was started to end early.
  void cancel(const std::shared_ptr<Work>& work);

  /// For bodies of works.
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  /// Whether this is a child of the process that made it.
  [[nodiscard]] bool is_forked() const noexcept { return fork_.is_child(); }

 private:
  struct Order {
    enum class What : std::uint8_t { begin, cancel, interrupt } what{};
    Work* work = nullptr;
    std::shared_ptr<Work> held{};  ///< null: the thread that gave the order waits until the work is over
  };
  /// What a thread waits for: the first of them to be over.
  using Works = std::span<Work* const>;
  class Alarm final : public Timer {
   public:
    explicit Alarm(bool& rings) noexcept : rings_(rings) {}

   private:
    void expire() noexcept override { rings_ = true; }
    bool& rings_;
  };

  // Leading is driving the engine. The bits of lead_:
  static constexpr std::uint32_t kLed = 1;     ///< somebody does
  static constexpr std::uint32_t kWanted = 2;  ///< who leads looks at orders and at the keeper when it ends

  void refuse_child() const;
  [[nodiscard]] static bool is_any_over(Works works) noexcept;
  /// Whether this thread leads now. If not, who does looks at orders and at followers when it ends. Requires
  /// the lock.
  [[nodiscard]] bool lead_or_want() noexcept;
  [[nodiscard]] bool try_lead() noexcept {
    std::uint32_t free = 0;
    return lead_.compare_exchange_strong(free, kLed, std::memory_order_acquire);
  }
  /// `is_quiet`: the engine has nothing to do that it had not before.
  void release(bool is_quiet) noexcept {
    std::uint32_t led = kLed;
    if (!is_quiet || !lead_.compare_exchange_strong(led, 0, std::memory_order_release)) [[unlikely]]
      hand_on();
  }
  void hand_on() noexcept;

  // Of whoever leads:
  void begin(Work& work);
  Task<> carry_out(Work& work);
  void end(Work& work, std::exception_ptr failure) noexcept;
  static void cancel_on_engine(Work& work, const Error& cause) noexcept;
  void drive(Works works, TimePoint until, bool may_be_asked);
  void take_orders() noexcept;
  [[nodiscard]] bool is_at_rest() noexcept;

  // Of whoever does not:
  [[nodiscard]] bool give_order(Order order);
  bool attend(Works works, const std::shared_ptr<Work>& held, TimePoint until, Interrupt* interrupt);
  void pass_on(std::unique_lock<std::mutex>& lock) noexcept;
  void ask(Work& work, const std::shared_ptr<Work>& held, Interrupt*& interrupt);

  // The keeper's:
  void keep() noexcept;
  Task<> until_end();
  void serve() noexcept;
  void lead_as_keeper();
  void watch(TimePoint until);
  void sleep_until_wanted(Duration most, bool for_engine);

  const ForkDetector fork_;
  const Descriptor keeper_event_;          ///< ends the keeper's sleep
  std::atomic<std::uint32_t> lead_{kLed};  ///< the keeper's at first

  // Whoever leads:
  std::unique_ptr<Engine> engine_;
  std::optional<SteppedRun> run_;
  TaskScope works_{nullptr, TaskScope::OnFailure::keep_others};
  Notify end_;  ///< posted when the loop's owner has let go of it, and what was begun is over
  bool is_ending_ = false;
  std::size_t begun_ = 0;  ///< and not over
  Works driven_for_{};     ///< those that run_until() waits for
  bool stops_ = false;
  Alarm alarm_{stops_};

  std::atomic<bool> is_driven_{false};           ///< by a thread that waits, and sleeps in the engine
  std::atomic<std::uint32_t> drives_{0};         ///< counts those
  std::atomic<TimePoint> keeper_until_{kNever};  ///< when the keeper looks at the latest
  std::atomic<bool> keeper_watches_{false};      ///< the engine's descriptor
  std::uint32_t seen_drives_ = 0;                ///< the keeper's

  std::mutex mutex_;
  std::deque<Order> orders_;
  std::condition_variable over_;  ///< somebody's work is, or nobody leads
  std::size_t followers_ = 0;     ///< wait for that
  bool keeper_waits_ = false;     ///< for the lead
  bool keeper_leads_ = true;      ///< was handed it
  bool is_ready_ = false;
  std::exception_ptr failure_;  ///< of making the engine
  std::thread thread_;
};

}  // namespace cohort::bindings
