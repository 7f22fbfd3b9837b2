// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/process.h>
#include <cohort/engine/system/process_guard.h>
#include <cohort/net/rank.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/launch/output_relay.h>
#include <cohort/tools/launch/supervisor.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// The ranks of one job on this host, from their start until nothing is left of them.
class LocalJob final : Supervisor {
 public:
  /// Starts every rank; if one cannot be started, none is left. Throws what ChildProcess::spawn throws.
  LocalJob(Engine& engine, const LaunchOptions& options, JobOutput& output);

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

  // What happens: each a task.
  Task<> watch(RankProcess& rank);
  Task<> accompany();
  Task<> explain_failure(RankProcess& rank);
  Task<> look_for_waiting();
  Task<> look_while_ranks_run();
  Task<bool> is_anybody_joining();

  // What is done about it.
  void tell_launcher();
  [[nodiscard]] TimePoint own_deadline() const noexcept override { return kill_leftovers_; }
  void take_events(TimePoint now) override;
  void react(ProcessSignal signal, TimePoint now) override;
  void end_running(TimePoint now) override;
  void clear_up(TimePoint now) override;
  void announce(std::string text) override;
  [[nodiscard]] bool is_over() const noexcept override;
  void tell_running(ProcessSignal signal);
  void explain(RankProcess& rank);
  void explain_rest();
  [[nodiscard]] std::string place() const;
  [[nodiscard]] std::vector<Rank> running() const;
  [[nodiscard]] int status() const;

  // Fixed after construction.
  const LaunchOptions options_;
  ProcessGuard guard_;
  const std::optional<MasterPort> master_port_;  ///< of a job that is here as a whole
  const std::string address_;                    ///< of rank 0
  std::deque<RankProcess> ranks_;

  // What has happened.
  std::vector<RankProcess*> failed_;  ///< by themselves, in order
  std::vector<RankProcess*> left_;    ///< with success, and not known to be waited for
  bool is_looking_for_waiting_ = false;
  std::size_t told_failures_ = 0;  ///< of these, to the launcher of the whole job
  std::size_t explaining_ = 0;     ///< failures whose last words are waited for
  bool is_rest_explained_ = false;
  bool is_clear_of_leftovers_ = false;
  TimePoint kill_leftovers_ = kNever;  ///< the ranks have ended: SIGKILL to what they started
};

}  // namespace cohort
