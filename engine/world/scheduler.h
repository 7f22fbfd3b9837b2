// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/engine/world/baton.h>
#include <cohort/engine/world/random.h>
#include <cohort/engine/world/settings.h>

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace cohort::world {

/// What a process asks of its host, as the scheduler sees it.
class Host {
 public:
  virtual ~Host() = default;
  /// The earliest moment at which something that the sleeping process waits for is there; kNever if nothing
  /// is under way.
  [[nodiscard]] virtual TimePoint ready_at() const = 0;
  /// What it waits for, for people.
  [[nodiscard]] virtual std::string waits_for() const = 0;
};

/// Lets the threads of all processes take turns, one at a time, and keeps the virtual time.
///
/// A process keeps its turn until it sleeps or pauses. Then the one that can go on earliest does, after the
/// seeded time that its own last turn took; time passes only so. When nobody can ever go on, that is a hang.
///
/// Threads: the caller of run(), and those of the processes while it is their turn; these share one core,
/// since no two of them ever run at once, and to wake an idle core takes longer than a switch.
class Scheduler : Immovable {
 public:
  explicit Scheduler(const Settings& settings);

  /// Runs all bodies to their ends, each on a thread of its own. False: some hang for good; their threads are
  /// left behind, and with them everything that they hold.
  [[nodiscard]] bool run(std::vector<std::function<void()>> bodies);
  /// What went wrong in run() itself, such as a hang: empty if nothing did.
  [[nodiscard]] const std::string& finding() const noexcept { return finding_; }
  /// Asked when all that live are through, or hang: ends what the others wait for.
  void set_on_end(std::function<void()> on_end) { on_end_ = std::move(on_end); }

  [[nodiscard]] TimePoint now() const noexcept { return now_; }
  /// Since the beginning.
  [[nodiscard]] Duration elapsed() const noexcept { return now_ - kBegin; }
  [[nodiscard]] std::uint64_t turns() const noexcept { return turns_; }
  [[nodiscard]] Random& random() noexcept { return random_; }
  void attach(Process process, Host* host) noexcept { slots_[process].host = host; }

  // By the process whose turn it is:
  /// Lets others go on, and goes on itself in a while.
  void pause(Process process);
  /// Is busy for so long: others go on, and its engine does not turn.
  void compute(Process process, Duration takes);
  /// Until something it waits for is there, wake() was called or the moment has come.
  void sleep(Process process, TimePoint until);
  /// From any thread.
  void wake(Process process) noexcept { slots_[process].is_woken.store(true, std::memory_order_release); }
  /// Ends the turn of a process that died: returns only after everybody else is through.
  void die(Process process);
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }

  /// What happened: into the hash, and printed if the settings say so.
  void note(Process process, const char* what, std::uint64_t one = 0, std::uint64_t other = 0);
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  enum class State : std::uint8_t { ready, asleep, dead, finished };
  static constexpr TimePoint kBegin{std::chrono::hours(1)};

  struct Slot {
    State state = State::ready;
    TimePoint not_before{};
    TimePoint wake_at = kNever;
    double slowness = 1;
    std::atomic<bool> is_woken{false};
    Host* host = nullptr;
    Baton turn;
    std::thread thread;
  };

  [[nodiscard]] TimePoint ready_at(const Slot& slot) const;
  /// The process to go on with; null: the run is over.
  Slot* choose();
  [[nodiscard]] bool is_left(State state) const noexcept;
  [[nodiscard]] std::string who_waits() const;
  void report(const std::string& what);
  void hand_over(Slot& from);
  void pass_turn(Slot& from);
  void give_turn(Slot* to);
  void end_turn(Slot& slot);

  const Settings& settings_;
  Random random_;
  TimePoint now_ = kBegin;
  const TimePoint end_;
  std::atomic<std::uint64_t> turns_{0};  ///< the caller of run() looks whether it goes on
  std::uint64_t hash_ = 0xcbf29ce484222325;
  std::vector<Slot> slots_;
  std::function<void()> on_end_;
  std::string finding_;
  bool is_over_ = false;
  bool is_abandoned_ = false;
  Baton done_;
};

}  // namespace cohort::world
