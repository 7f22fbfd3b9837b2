// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/output_stream.h>
#include <cohort/engine/system/process.h>
#include <cohort/engine/system/process_guard.h>
#include <cohort/net/auth/secret.h>
#include <cohort/notify/notify.h>
#include <cohort/tools/launch/hosts_launcher.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/output_relay.h>
#include <cohort/tools/launch/supervisor.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// The agents of one job on several hosts, from their start until all have ended.
class HostsJob final : Supervisor {
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

    /// A remote shell that started nothing may have succeeded itself.
    [[nodiscard]] bool has_succeeded() const { return has_answered && status && status->is_success(); }
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
  Task<> command(Agent& agent);
  Task<> give_signs();

  [[nodiscard]] TimePoint own_deadline() const noexcept override { return std::min(answer_, hang_up_); }
  void take_events(TimePoint now) override;
  void react(ProcessSignal signal, TimePoint now) override;
  void end_running(TimePoint now) override;
  void clear_up(TimePoint now) override;
  void announce(std::string text) override { tasks_->spawn(say(std::move(text))); }
  [[nodiscard]] bool is_over() const noexcept override;

  void take_failures(TimePoint now);
  void give_up_on_the_silent(TimePoint now);
  void tell_running(ProcessSignal signal);
  [[nodiscard]] std::string why_it_ended(const Agent& agent) const;
  [[nodiscard]] std::string running() const;
  [[nodiscard]] int status() const;

  const HostsOptions hosts_;
  const LaunchOptions options_;
  ProcessGuard guard_;
  Secret secret_;
  std::string token_;
  std::string mark_;
  Rank size_ = 0;
  std::string master_port_;  ///< as the first host's agent says it; empty: there is none
  std::deque<Agent> agents_;
  std::size_t answered_count_ = 0;
  bool is_started_ = false;
  TimePoint answer_ = kNever;   ///< by when all have to answer
  TimePoint hang_up_ = kNever;  ///< end the connections themselves
};

}  // namespace cohort
