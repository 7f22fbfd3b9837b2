// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/hosts_job.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tools/launch/agent_plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace cohort {
namespace {

/// One word of a shell's command, whatever is in it.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

/// Calls it with each line, with its end.
template <class Function>
void each_line(std::string_view lines, const Function& function) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    function(lines.substr(0, end));
    lines.remove_prefix(end);
  }
}

}  // namespace

HostsJob::Agent::Agent(Engine& engine, HostSlots on, Rank first, ChildProcess child, JobOutput& to)
    : host(std::move(on)),
      first_rank(first),
      process(std::move(child)),
      output(process.take_output(), LineBuffer(""), to, OutputChannel::output),
      errors(process.take_errors(), LineBuffer(""), to, OutputChannel::errors),
      input(process.take_input()),
      commands(engine, input.number()) {}

HostsJob::HostsJob(Engine& engine, const HostsOptions& hosts, const LaunchOptions& options, JobOutput& output)
    : Supervisor(engine, output),
      hosts_(hosts),
      options_(options),
      guard_(hosts.hosts.size()),
      secret_(Secret::random()),
      token_(fmt::format("{:016x}", random_incarnation())),
      mark_(agent_mark(token_)),
      size_(std::accumulate(hosts.hosts.begin(), hosts.hosts.end(), Rank{0},
                            [](Rank sum, const HostSlots& host) { return sum + host.slots; })) {
  Rank first = 0;
  for (const HostSlots& host : hosts_.hosts) {
    start_agent(host, first);
    first += host.slots;
  }
  running_count_ = agents_.size();
}

void HostsJob::start_agent(const HostSlots& host, Rank first) {
  SpawnOptions spawn;
  spawn.command = hosts_.remote_shell;
  spawn.command.push_back(host.name);
  // `cohort-run` is `cohort run`.
  const bool is_run = hosts_.agent_program.ends_with("cohort-run");
  spawn.command.push_back(
      fmt::format("exec {} {}--agent", quoted(hosts_.agent_program), is_run ? "" : "run "));
  spawn.guard = &guard_;
  spawn.has_output_pipes = true;
  spawn.has_input_pipe = true;
  Agent& agent = agents_.emplace_back(engine_, host, first, ChildProcess::spawn(engine_, spawn), output_);
  agent.output.rewrite_by([this, &agent](std::string_view lines) { return rewrite_output(agent, lines); });
  agent.errors.rewrite_by([this, &agent](std::string_view lines) { return rewrite_errors(agent, lines); });
  send(agent, plan_for(host, first));
  send(agent, hexadecimal(secret_.bytes()) + "\n");
}

std::string HostsJob::plan_for(const HostSlots& host, Rank first) const {
  AgentPlan plan;
  plan.version = COHORT_VERSION;
  plan.token = token_;
  plan.host = host.name;
  plan.first_rank = first;
  plan.ranks = host.slots;
  plan.size = size_;
  plan.directory = hosts_.directory;
  plan.command = options_.command;
  plan.environment = options_.environment;
  plan.prefix_output = options_.prefix_output;
  plan.keeps_going = options_.keeps_going;
  plan.time_to_notice = options_.time_to_notice;
  plan.time_to_end = options_.time_to_end;
  return encode(plan);
}

Task<int> HostsJob::run() {
  const auto begin = [this] {
    answer_ = after(engine_.now(), hosts_.time_to_answer);
    for (Agent& agent : agents_) {
      tasks_->spawn(relay(agent.output));
      tasks_->spawn(relay(agent.errors));
      tasks_->spawn(command(agent));
      tasks_->spawn(watch(agent));
    }
    tasks_->spawn(give_signs());
  };
  co_await run_until_over(options_.timeout, begin);
  co_return status();
}

// What agents say.

/// What comes before the agent itself are words of a login, and no output of the job.
std::string HostsJob::rewrite_output(Agent& agent, std::string_view lines) {
  std::string output;
  each_line(lines, [&](std::string_view line) {
    // A login may leave its last line open.
    const std::size_t at = agent.has_answered ? (line.starts_with(mark_) ? 0 : line.npos) : line.find(mark_);
    if (at != line.npos)
      hear(agent, line.substr(at + mark_.size(), line.size() - at - mark_.size() - 1));
    else if (agent.has_answered)
      output += line;
  });
  return output;
}

std::string HostsJob::rewrite_errors(const Agent& agent, std::string_view lines) const {
  if (agent.has_answered) return std::string(lines);
  std::string output;
  each_line(lines, [&](std::string_view line) { output += fmt::format("{}: {}", agent.host.name, line); });
  return output;
}

void HostsJob::hear(Agent& agent, std::string_view words) {
  const std::size_t blank = std::min(words.find(' '), words.size());
  const std::string_view verb = words.substr(0, blank);
  const std::string value(words.substr(std::min(blank + 1, words.size())));
  if (verb == "hello") hear_answer(agent, value);
  if (verb == "port" && &agent == &agents_.front()) master_port_ = value;
  if (verb == "address" && !is_started_) start_all(value);
  if (verb == "failed") {
    int status = 1;
    std::from_chars(value.data(), value.data() + value.size(), status);
    if (!agent.first_failure) agent.first_failure = status;
    if (!options_.keeps_going) decide(status, after(engine_.now(), options_.time_to_notice));
  }
  wake();
}

/// When all are there, the first one is asked for an address by which the others reach it.
void HostsJob::hear_answer(Agent& agent, std::string address) {
  if (agent.has_answered) return;
  agent.has_answered = true;
  agent.reached_at = std::move(address);
  if (++answered_count_ < agents_.size()) return;
  if (agents_.size() == 1 || !hosts_.address.empty()) {
    start_all(hosts_.address);
    return;
  }
  std::string question = "meet";
  for (std::size_t i = 1; i < agents_.size(); ++i) {
    const Agent& other = agents_[i];
    const bool is_loopback = other.reached_at.starts_with("127.") || other.reached_at == "::1";
    const bool is_known = !other.reached_at.empty() && !is_loopback;
    question += " " + (is_known ? other.reached_at : other.host.name);
  }
  // The way from the launcher is the last resort, as where the others are known by names alone.
  if (!agents_[0].reached_at.empty()) question += " " + agents_[0].reached_at;
  send(agents_[0], question + "\n");
}

void HostsJob::start_all(const std::string& address) {
  is_started_ = true;
  answer_ = kNever;
  for (Agent& agent : agents_) send(agent, fmt::format("start {} {}\n", address, master_port_));
}

// Tasks.

void HostsJob::send(Agent& agent, std::string line) {
  agent.unsent.push_back(std::move(line));
  if (agent.has_unsent.untaken_posts() == 0) agent.has_unsent.post();
}

Task<> HostsJob::command(Agent& agent) {
  try {
    for (;;) {
      while (!agent.unsent.empty()) {
        const std::string line = std::move(agent.unsent.front());
        agent.unsent.pop_front();
        Task<bool> writing = with_scope(*listening_, agent.commands.write(line));
        const bool is_heard = co_await writing;
        if (!is_heard) co_return;  // watch() sees its end
      }
      auto wait = [&]() -> Task<> { co_await agent.has_unsent.wait(); };
      Task<> waiting = with_scope(*listening_, wait());
      co_await waiting;
    }
  } catch (const Error& error) {
    if (!listening_->is_cancelled() && error.kind() != ErrorKind::SystemError) throw;
  }
}

Task<> HostsJob::give_signs() {
  try {
    for (;;) {
      auto wait = [&]() -> Task<> { co_await engine_.sleep_for(kAgentSignInterval); };
      Task<> waiting = with_scope(*listening_, wait());
      co_await waiting;
      for (Agent& agent : agents_)
        if (agent.unsent.empty()) send(agent, "alive\n");
    }
  } catch (const Error&) {
    if (!listening_->is_cancelled()) throw;
  }
}

Task<> HostsJob::watch(Agent& agent) {
  const ExitStatus status = co_await agent.process.wait();
  // What it said last counts.
  auto last_words = [&]() -> Task<> { co_await agent.output.until_over(); };
  try {
    Task<> settled = with_deadline(kLastWords, last_words());
    co_await settled;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::DeadlineExceeded) throw;
  }
  agent.status = status;
  --running_count_;
  wake();
}

}  // namespace cohort
