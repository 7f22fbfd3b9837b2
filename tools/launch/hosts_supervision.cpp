// SPDX-License-Identifier: Apache-2.0
// What a job on several hosts does about what happens to its agents: the second half of
// tools/launch/hosts_job.h.
#include <cohort/tools/launch/hosts_job.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr Duration kFromEndToStop = std::chrono::milliseconds(500);
constexpr int kSshStatus = 255;

}  // namespace

void HostsJob::take_events(TimePoint now) {
  take_failures(now);
  if (is_due(answer_, now) && !verdict_) give_up_on_the_silent(now);
}

void HostsJob::give_up_on_the_silent(TimePoint now) {
  std::string silent;
  for (const Agent& agent : agents_)
    if (!agent.has_answered) silent += (silent.empty() ? "" : ", ") + agent.host.name;
  if (silent.empty()) silent = agents_.front().host.name;  // which was asked where the others reach it
  decide(1, now);
  announce(fmt::format("no answer from {} after {:g} s: look whether `{} HOST true` ends there", silent,
                       seconds(hosts_.time_to_answer), hosts_.remote_shell.front()));
}

/// The first one is passed on; whoever sends a second one does not want to wait.
void HostsJob::react(ProcessSignal signal, TimePoint now) {
  plan_.terminate = kNever;
  if (++signal_count_ > 1) {
    plan_.kill = now;
    hang_up_ = now + kFromKillToStop;
    plan_.abandon_output = now + 2 * kFromKillToStop;
    return;
  }
  if (!verdict_) verdict_ = kSignalStatus + static_cast<int>(signal);
  plan_.kill = std::min(plan_.kill, after(now, options_.time_to_end));
  plan_.abandon_output = after(after(plan_.kill, hosts_.time_to_hang_up), kFromEndToStop);
  if (running_count_ == 0) return;
  announce(fmt::format("{}: ending the ranks on {}", signal_name(signal), running()));
  tell_running(signal);
}

void HostsJob::take_failures(TimePoint now) {
  for (Agent& agent : agents_) {
    if (!agent.status || std::exchange(agent.is_failure_known, true)) continue;
    if (agent.has_succeeded() || agent.is_given_up) continue;
    if (!agent.first_failure && !agent.was_told_to_end) announce(why_it_ended(agent));
    if (agent.was_told_to_end || verdict_ || (options_.keeps_going && is_started_)) continue;
    decide(agent.first_failure.value_or(std::max(agent.status->shell_status(), 1)),
           is_started_ ? after(now, options_.time_to_notice) : now);
  }
}

std::string HostsJob::why_it_ended(const Agent& agent) const {
  const std::string& host = agent.host.name;
  const std::string& shell = hosts_.remote_shell.front();
  if (agent.has_answered && agent.status->shell_status() == kSshStatus)
    return fmt::format("the connection to {} was lost, and its ranks are ended there", host);
  if (agent.has_answered) return fmt::format("the ranks on {} {}", host, agent.status->describe(2));
  if (agent.status->shell_status() == kCannotStartStatus)
    return fmt::format(
        "'{}' cannot be started on {}: install cohort there, or say where it is with --agent-program",
        hosts_.agent_program, host);
  if (agent.status->shell_status() == kSshStatus)
    return fmt::format("{} cannot be reached: `{} {} true` has to work without being asked anything", host,
                       shell, host);
  return fmt::format("nothing was started on {}: {} {} before cohort's agent answered there{}", host, shell,
                     agent.status->describe(),
                     agent.status->is_success() ? ": it has to run the command that it is given" : "");
}

void HostsJob::end_running(TimePoint now) {
  if (is_due(plan_.terminate, now)) {
    if (verdict_ != kNoReaderStatus && is_started_)
      announce(fmt::format("ending the ranks on {}, still running", running()));
    tell_running(ProcessSignal::terminate);
    plan_.kill = std::min(plan_.kill, after(now, options_.time_to_end));
  }
  if (is_due(plan_.kill, now)) {
    announce(fmt::format("killing the ranks on {}, which did not end when told to", running()));
    tell_running(ProcessSignal::kill);
    hang_up_ = std::min(hang_up_, after(now, hosts_.time_to_hang_up));
  }
  if (is_due(hang_up_, now)) {
    for (Agent& agent : agents_) {
      if (agent.status) continue;
      agent.is_given_up = true;
      announce(
          fmt::format("{} does not answer: its agent ends what runs there within 20 s", agent.host.name));
      agent.process.signal(ProcessSignal::kill);
    }
  }
}

void HostsJob::clear_up(TimePoint now) {
  plan_.terminate = plan_.kill = answer_ = hang_up_ = kNever;
  if (plan_.stop_relays == kNever) plan_.stop_relays = after(now, kFromEndToStop);
  if (now < plan_.stop_relays) return;
  plan_.stop_relays = kNever;
  for (Agent& agent : agents_) {
    agent.output.stop();
    agent.errors.stop();
  }
}

void HostsJob::tell_running(ProcessSignal signal) {
  for (Agent& agent : agents_) {
    if (agent.status) continue;
    agent.was_told_to_end = true;
    if (agent.has_answered)
      send(agent, fmt::format("signal {}\n", static_cast<int>(signal)));
    else
      agent.process.signal(ProcessSignal::kill);  // still on its way there
  }
}

std::string HostsJob::running() const {
  std::string hosts;
  for (const Agent& agent : agents_)
    if (!agent.status) hosts += (hosts.empty() ? "" : ", ") + agent.host.name;
  return hosts;
}

/// That of the first cause; of a job that keeps going, whether any host had a rank that succeeded.
int HostsJob::status() const {
  if (verdict_) return *verdict_;
  const auto has_succeeded = [](const Agent& agent) { return agent.has_succeeded(); };
  if (std::ranges::any_of(agents_, has_succeeded)) return 0;
  return std::max(agents_.front().status->shell_status(), 1);
}

bool HostsJob::is_over() const noexcept {
  return running_count_ == 0 && unsaid_ == 0 && std::ranges::all_of(agents_, [](const Agent& agent) {
           return agent.output.is_over() && agent.errors.is_over();
         });
}

}  // namespace cohort
