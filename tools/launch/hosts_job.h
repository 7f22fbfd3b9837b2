// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/output_stream.h>
#include <cohort/engine/system/process.h>
#include <cohort/engine/system/process_guard.h>
#include <cohort/engine/system/signals.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/auth/secret.h>
#include <cohort/notify/notify.h>
#include <cohort/tools/launch/hosts_launcher.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/output_relay.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// The agents of one job on several hosts, from their start until all have ended. As Job: tasks note what
/// happens, supervise() decides.
class HostsJob : Immovable {
 public:
  /// Starts what leads to each host. Throws what ChildProcess::spawn throws.
  HostsJob(Engine& engine, const HostsOptions& hosts, const LaunchOptions& options, JobOutput& output);

  /// Gives the job's status, as launch_on_hosts() does. Once.
  Task<int> run();

 private:
  struct Agent : Immovable {
    Agent(Engine& engine, HostSlots on, Rank first, ChildProcess child, JobOutput& to);

    const HostSlots host;
    const Rank first_rank;
    ChildProcess process;
    OutputRelay output;
    OutputRelay errors;
    Descriptor input;
    OutputStream commands;
    std::deque<std::string> unsent;
    Notify has_unsent;
    std::string reached_at;  ///< by the launcher's host, if that is known
    bool has_answered = false;
    bool was_told_to_end = false;
    bool is_given_up = false;          ///< its connection was ended from here
    std::optional<int> first_failure;  ///< of a rank, as it says
    std::optional<ExitStatus> status;  ///< of what leads there
    bool is_failure_known = false;
  };

  struct Alarm final : Timer {
    explicit Alarm(HostsJob& owner) : job(owner) {}
    void expire() noexcept override { job.wake(); }
    HostsJob& job;
  };

  /// As Job::Plan.
  struct Plan {
    TimePoint answer = kNever;
    TimePoint time_out = kNever;
    TimePoint terminate = kNever;
    TimePoint kill = kNever;
    TimePoint hang_up = kNever;  ///< end the connections themselves
    TimePoint stop_relays = kNever;
    TimePoint abandon_output = kNever;

    [[nodiscard]] TimePoint earliest() const noexcept;
  };

  void start_agent(const HostSlots& host, Rank first);
  [[nodiscard]] std::string plan_for(const HostSlots& host, Rank first) const;
  [[nodiscard]] std::string rewrite_output(Agent& agent, std::string_view lines);
  [[nodiscard]] std::string rewrite_errors(const Agent& agent, std::string_view lines) const;
  void hear(Agent& agent, std::string_view words);
  void hear_answer(Agent& agent, std::string address);
  void start_all(const std::string& address);
  void send(Agent& agent, std::string line);

  Task<> watch(Agent& agent);
  Task<> watch_signals();
  Task<> relay(OutputRelay& relay);
  Task<> command(Agent& agent);
  Task<> give_signs();
  Task<> say(std::string text);
  void wake() noexcept;

  Task<> supervise();
  void act(TimePoint now);
  void react(ProcessSignal signal, TimePoint now);
  void take_failures(TimePoint now);
  void end_running(TimePoint now);
  void clear_up(TimePoint now);
  void tell_running(ProcessSignal signal);
  [[nodiscard]] std::string why_it_ended(const Agent& agent) const;
  [[nodiscard]] std::string running() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] bool is_over() const noexcept;

  Engine& engine_;
  const HostsOptions hosts_;
  const LaunchOptions options_;
  JobOutput& output_;
  Signals signals_;
  ProcessGuard guard_;
  Secret secret_;
  std::string token_;
  std::string mark_;
  Rank size_ = 0;
  std::string master_port_;  ///< as the first host's agent says it; empty: there is none
  std::deque<Agent> agents_;
  std::vector<std::byte> scratch_;

  std::optional<int> verdict_;
  std::size_t running_count_ = 0;
  std::size_t answered_count_ = 0;
  std::size_t unsaid_ = 0;
  std::size_t signal_count_ = 0;
  bool is_started_ = false;
  std::deque<ProcessSignal> new_signals_;

  Plan plan_;
  Alarm alarm_{*this};
  Notify changed_;
  std::optional<TaskScope> tasks_;
  std::optional<CancelScope> listening_;
  std::optional<CancelScope> writing_;
};

}  // namespace cohort
