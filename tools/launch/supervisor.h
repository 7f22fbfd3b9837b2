// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/system/signals.h>
#include <cohort/engine/task_scope.h>
#include <cohort/notify/notify.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/output_relay.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// What supervising the ranks of a host, and the agents of several hosts, have in common: tasks of their own
/// note what happens and wake one loop over events and deadlines, which alone decides.
///
/// Threads: the engine's.
class Supervisor : protected Immovable {
 public:
  static constexpr int kTimeoutStatus = 124;
  static constexpr int kNoReaderStatus = 141;  // 128 + SIGPIPE
  static constexpr int kSignalStatus = 128;
  static constexpr int kLostOutputStatus = 1;
  static constexpr int kCannotStartStatus = 127;

 protected:
  /// What somebody wrote last should stand before the words about its end.
  static constexpr Duration kLastWords = std::chrono::milliseconds(500);
  static constexpr Duration kFromKillToStop = std::chrono::milliseconds(100);

  /// When something is to be done; kNever: not planned.
  struct Plan {
    TimePoint time_out = kNever;
    TimePoint terminate = kNever;       ///< SIGTERM to who still runs
    TimePoint kill = kNever;            ///< SIGKILL to them
    TimePoint stop_relays = kNever;     ///< not even that has closed their output
    TimePoint abandon_output = kNever;  ///< the user wants to leave: what nobody reads is lost

    [[nodiscard]] TimePoint earliest() const noexcept {
      return std::min({time_out, terminate, kill, stop_relays, abandon_output});
    }
  };

  Supervisor(Engine& engine, JobOutput& output);
  ~Supervisor() = default;

  /// `begin` spawns what is particular. Until is_over(), or for `timeout`, if there is one.
  Task<> run_until_over(std::optional<Duration> timeout, const std::function<void()>& begin);

  // Tasks.
  Task<> relay(OutputRelay& relay);
  /// To the errors of the job.
  Task<> say(std::string text);
  void wake() noexcept;

  /// Whether the moment has come; it is then no longer planned.
  [[nodiscard]] static bool is_due(TimePoint& moment, TimePoint now) noexcept {
    if (now < moment) return false;
    moment = kNever;
    return true;
  }
  [[nodiscard]] static double seconds(Duration duration) noexcept {
    return std::chrono::duration<double>(duration).count();
  }
  /// Gives the job its status, unless it has one, and ends who runs at that moment.
  void decide(int status, TimePoint terminate) noexcept;

  // What is particular.
  /// Deadlines beside the plan's.
  [[nodiscard]] virtual TimePoint own_deadline() const noexcept = 0;
  /// What has happened to ranks or agents.
  virtual void take_events(TimePoint now) = 0;
  virtual void react(ProcessSignal signal, TimePoint now) = 0;
  virtual void end_running(TimePoint now) = 0;
  /// Nobody runs any more.
  virtual void clear_up(TimePoint now) = 0;
  /// Of the job as a whole.
  virtual void announce(std::string text) = 0;
  [[nodiscard]] virtual bool is_over() const noexcept = 0;

  Engine& engine_;
  JobOutput& output_;
  std::vector<std::byte> scratch_;

  std::optional<int> verdict_;  ///< the job's status, from its first cause
  std::size_t running_count_ = 0;
  std::size_t unsaid_ = 0;  ///< messages that are not out yet
  std::size_t signal_count_ = 0;
  Plan plan_;
  std::optional<TaskScope> tasks_;
  std::optional<CancelScope> listening_;  ///< of what waits for signals, and of what runs beside
  std::optional<CancelScope> writing_;    ///< of what reads and writes output

 private:
  /// Wakes supervise() at its next deadline.
  struct Alarm final : Timer {
    explicit Alarm(Supervisor& owner) : supervisor(owner) {}
    void expire() noexcept override { supervisor.wake(); }
    Supervisor& supervisor;
  };

  Task<> watch_signals();
  Task<> supervise();
  void act(TimePoint now);

  Signals signals_;
  std::deque<ProcessSignal> new_signals_;
  std::optional<Duration> timeout_;
  Alarm alarm_{*this};
  Notify changed_;
};

/// The job's status; one that could not be made is said with what it was refused for.
template <class SomeJob>
Task<int> run_or_refuse(std::optional<SomeJob>& job, JobOutput& output, const std::string& refusal) {
  if (job) {
    const int status = co_await job->run();
    co_return status == 0 && output.has_lost_text() ? Supervisor::kLostOutputStatus : status;
  }
  co_await output.write(OutputChannel::errors, refusal);
  co_return Supervisor::kCannotStartStatus;
}

}  // namespace cohort
