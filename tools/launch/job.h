// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/process.h>
#include <cohort/engine/system/process_guard.h>
#include <cohort/engine/system/signals.h>
#include <cohort/net/rank.h>
#include <cohort/notify/notify.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/launch/output_relay.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// The ranks of one job on this host, from their start until nothing is left of them.
///
/// Tasks of their own note what happens and wake supervise(), which alone decides: one loop over events and
/// deadlines.
class Job : Immovable {
 public:
  /// Starts every rank; if one cannot be started, none is left. Throws what ChildProcess::spawn throws.
  Job(Engine& engine, const LaunchOptions& options, JobOutput& output);

  /// Until all ranks have ended and their output is out. Gives the job's status, as launch() does. Once.
  Task<int> run();

 private:
  struct RankProcess : Immovable {
    RankProcess(Rank number, ChildProcess child, const LaunchOptions& options, JobOutput& to);

    const Rank rank;
    ChildProcess process;
    OutputRelay output;
    OutputRelay errors;
    std::optional<ExitStatus> status;
    bool was_told_to_end = false;
    bool is_explained = false;  ///< its failure, or about to be
  };

  /// Wakes supervise() at its next deadline.
  struct Alarm final : Timer {
    explicit Alarm(Job& owner) : job(owner) {}
    void expire() noexcept override { job.wake(); }
    Job& job;
  };

  /// When something is to be done; kNever: not planned.
  struct Plan {
    TimePoint time_out = kNever;
    TimePoint terminate = kNever;       ///< SIGTERM to the ranks that still run
    TimePoint kill = kNever;            ///< SIGKILL to them
    TimePoint kill_leftovers = kNever;  ///< the ranks have ended: to what they started
    TimePoint stop_relays = kNever;     ///< not even that has closed a rank's output
    TimePoint abandon_output = kNever;  ///< the user wants to leave: what nobody reads is lost

    [[nodiscard]] TimePoint earliest() const noexcept;
  };

  // What happens: each a task.
  Task<> watch(RankProcess& rank);
  Task<> watch_signals();
  Task<> accompany();
  Task<> relay(OutputRelay& relay);
  Task<> explain_failure(RankProcess& rank);
  Task<> say(std::string text);
  void wake() noexcept;

  // What is done about it.
  Task<> supervise();
  void act(TimePoint now);
  void react(ProcessSignal signal, TimePoint now);
  void tell_launcher();
  void take_failures(TimePoint now);
  void end_running_ranks(TimePoint now);
  void clear_up(TimePoint now);
  void tell_running(ProcessSignal signal);
  void explain(RankProcess& rank);
  void explain_rest();
  void say_unless_share(std::string text);
  [[nodiscard]] std::string place() const;
  [[nodiscard]] std::vector<Rank> running() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] bool is_over() const noexcept;

  // Fixed after construction.
  Engine& engine_;
  const LaunchOptions options_;
  JobOutput& output_;
  Signals signals_;
  ProcessGuard guard_;
  const std::optional<MasterPort> master_port_;  ///< of a job that is here as a whole
  std::deque<RankProcess> ranks_;
  std::vector<std::byte> scratch_;

  // What has happened.
  std::optional<int> verdict_;        ///< the job's status, from its first cause
  std::vector<RankProcess*> failed_;  ///< by themselves, in order
  std::size_t told_failures_ = 0;     ///< of these, to the launcher of the whole job
  std::size_t explaining_ = 0;        ///< failures whose last words are waited for
  bool is_rest_explained_ = false;
  bool is_clear_of_leftovers_ = false;
  std::size_t running_count_ = 0;
  std::size_t unsaid_ = 0;  ///< messages that are not out yet
  std::size_t signal_count_ = 0;
  std::deque<ProcessSignal> new_signals_;

  Plan plan_;
  Alarm alarm_{*this};
  Notify changed_;
  std::optional<TaskScope> tasks_;
  std::optional<CancelScope> listening_;  ///< of what waits for signals, and of what runs beside the ranks
  std::optional<CancelScope> writing_;    ///< of what reads and writes output
};

}  // namespace cohort
