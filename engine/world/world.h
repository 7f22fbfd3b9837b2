// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/world/scheduler.h>
#include <cohort/engine/world/sockets.h>

namespace cohort::world {

/// Processes on simulated hosts: real engines, and everything on them, in virtual time over simulated
/// sockets. The same settings give the same run, down to the hash of its trace.
///
/// Shared memory is real: its doorbells are futexes, which a sleeping process looks at whenever somebody else
/// had a turn. Threads: run() and the bodies. Lifetime: where run() returns false, for ever.
class World : Immovable {
 public:
  explicit World(Settings settings);

  /// For an engine that a body of run() makes.
  [[nodiscard]] EngineOptions engine_options(Process process);
  /// As Scheduler::run(), one body per process. Dead processes go on when all others are through, cut off
  /// from everything, so that their threads end.
  [[nodiscard]] bool run(std::vector<std::function<void()>> bodies) {
    return scheduler_.run(std::move(bodies));
  }

  /// A hang, an endless run: empty if there was none.
  [[nodiscard]] const std::string& finding() const noexcept { return scheduler_.finding(); }
  [[nodiscard]] std::uint64_t hash() const noexcept { return scheduler_.hash(); }
  [[nodiscard]] TimePoint now() const noexcept { return scheduler_.now(); }
  /// Whether all that live are through, or hang; what happens from then on counts no more.
  [[nodiscard]] bool is_over() const noexcept { return scheduler_.is_over(); }
  [[nodiscard]] bool has_died(Process process) const noexcept {
    return steps_[process] >= last_steps_[process];
  }
  /// When it did; kNever if it lives, or fell silent.
  [[nodiscard]] TimePoint died_at(Process process) const noexcept { return died_at_[process]; }
  /// See DeadProcess::since_mark. The first one of each process counts.
  void mark(Process process);
  /// Puts an event of the user's into the trace.
  void note(Process process, const char* what, std::uint64_t one = 0, std::uint64_t other = 0) {
    scheduler_.note(process, what, one, other);
  }

  // For the engine's parts:
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] Scheduler& scheduler() noexcept { return scheduler_; }
  [[nodiscard]] Sockets& sockets() noexcept { return sockets_; }
  /// The process turns to its host once more: where it forks or dies, if it is to.
  void step(Process process);

 private:
  const Settings settings_;
  Scheduler scheduler_;
  Sockets sockets_;
  std::vector<std::uint64_t> steps_;
  std::vector<std::uint64_t> last_steps_;
  std::vector<TimePoint> died_at_;
  std::vector<std::uint64_t> forks_at_;  ///< of settings_.forking, steps; 0: not known yet
};

}  // namespace cohort::world
