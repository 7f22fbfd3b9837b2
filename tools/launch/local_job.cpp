// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/local_job.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/processor.h>
#include <cohort/engine/system/sealed_bytes.h>
#include <cohort/net/auth/identity.h>
#include <cohort/net/auth/secret.h>
#include <cohort/tools/launch/rank_list.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

Rank first_rank_of(const LaunchOptions& options) { return options.share ? options.share->first_rank : 0; }

std::optional<MasterPort> master_port_for(const LaunchOptions& options) {
  const bool is_whole_job = !options.share || options.share->size == options.ranks;
  return is_whole_job ? MasterPort::choose() : std::nullopt;
}

MasterPlace master_of(const LaunchOptions& options, const std::optional<MasterPort>& own) {
  if (options.share && options.share->master.port != 0) return options.share->master;
  return {"127.0.0.1", own ? own->number() : std::uint16_t{0}};
}

/// Adds what torchrun sets.
void add_torch_variables(Environment& environment, Rank rank, Rank size, const LaunchOptions& options,
                         const MasterPlace& master) {
  const auto add = [&](const char* name, std::string value) {
    const auto is_it = [name](const auto& variable) { return variable.first == name; };
    if (std::ranges::none_of(options.environment, is_it)) environment.emplace_back(name, std::move(value));
  };
  add("RANK", std::to_string(rank));
  add("WORLD_SIZE", std::to_string(size));
  add("LOCAL_RANK", std::to_string(rank - first_rank_of(options)));
  add("LOCAL_WORLD_SIZE", std::to_string(options.ranks));
  // Libraries of numbers start a thread for each core of the host otherwise, in every rank.
  if (options.ranks > 1 && !environment::text("OMP_NUM_THREADS"))
    add("OMP_NUM_THREADS", std::to_string(std::max(1U, processor::available_cores() / options.ranks)));
  if (master.port == 0 || master.host.empty()) return;
  add("MASTER_ADDR", master.host);
  add("MASTER_PORT", std::to_string(master.port));
}

Environment environment_of(Rank rank, const LaunchOptions& options, const std::string& address,
                           const MasterPlace& master, int secret) {
  const Rank size = options.share ? options.share->size : options.ranks;
  Environment environment = options.environment;
  add_torch_variables(environment, rank, size, options, master);
  environment.emplace_back("COHORT_RANK", std::to_string(rank));
  environment.emplace_back("COHORT_SIZE", std::to_string(size));
  environment.emplace_back("COHORT_LOCAL_RANK", std::to_string(rank - first_rank_of(options)));
  environment.emplace_back("COHORT_LOCAL_SIZE", std::to_string(options.ranks));
  environment.emplace_back("COHORT_ADDR", address);
  environment.emplace_back("COHORT_SECRET_FD", std::to_string(secret));
  return environment;
}

LineBuffer lines_of(Rank rank, const LaunchOptions& options) {
  return LineBuffer(options.prefix_output ? fmt::format("[{}] ", rank) : std::string());
}

bool has_secret(const LaunchOptions& options) {
  return options.share && options.share->secret && options.share->secret->is_set();
}

std::string address_of(const LaunchOptions& options) {
  if (options.share && !options.share->address.empty()) return options.share->address;
  return fmt::format("unix:cohort-{}-{:016x}", current_process(), random_incarnation());
}

}  // namespace

LocalJob::RankProcess::RankProcess(Rank number, ChildProcess child, const LaunchOptions& options,
                                   JobOutput& to)
    : rank(number),
      process(std::move(child)),
      output(process.take_output(), lines_of(rank, options), to, OutputChannel::output),
      errors(process.take_errors(), lines_of(rank, options), to, OutputChannel::errors) {}

LocalJob::LocalJob(Engine& engine, const LaunchOptions& options, JobOutput& output)
    : Supervisor(engine, output),
      options_(options),
      guard_(options.ranks),
      master_port_(master_port_for(options)),
      address_(address_of(options)) {
  const Secret secret =
      has_secret(options_) ? Secret::from_bytes(options_.share->secret->bytes()) : Secret::random();
  const MasterPlace master = master_of(options_, master_port_);
  const Rank first = first_rank_of(options_);
  for (Rank rank = first; rank < first + options_.ranks; ++rank) {
    // A file of its own for each: reading one moves no other's offset.
    const Descriptor secret_file = make_sealed_bytes(secret.bytes());
    std::vector<int> inherited = options_.inherited;
    inherited.push_back(secret_file.number());
    const SpawnOptions spawn{
        .command = options_.command,
        .environment = environment_of(rank, options_, address_, master, secret_file.number()),
        .inherited = inherited,
        .guard = &guard_,
        .has_output_pipes = true};
    ranks_.emplace_back(rank, ChildProcess::spawn(engine_, spawn), options_, output_);
  }
  running_count_ = ranks_.size();
}

Task<int> LocalJob::run() {
  const auto begin = [this] {
    for (RankProcess& rank : ranks_) {
      tasks_->spawn(relay(rank.output));
      tasks_->spawn(relay(rank.errors));
      tasks_->spawn(watch(rank));
    }
    if (options_.beside) tasks_->spawn(accompany());
  };
  co_await run_until_over(options_.timeout, begin);
  co_return status();
}

Task<> LocalJob::watch(RankProcess& rank) {
  const ExitStatus status = co_await rank.process.wait();
  rank.status = status;
  --running_count_;
  const bool is_failure = !status.is_success() && !rank.was_told_to_end;
  if (is_failure) failed_.push_back(&rank);
  if (status.is_success() && running_count_ != 0) {
    left_.push_back(&rank);
    if (!std::exchange(is_looking_for_waiting_, true)) tasks_->spawn(look_for_waiting());
  }
  wake();
}

Task<> LocalJob::accompany() {
  std::vector<ChildProcess*> processes;
  for (RankProcess& rank : ranks_) processes.push_back(&rank.process);
  try {
    Task<> beside = with_scope(*listening_, options_.beside(std::move(processes)));
    co_await beside;
  } catch (const Error&) {
    if (!listening_->is_cancelled()) throw;
  }
}

Task<> LocalJob::explain_failure(RankProcess& rank) {
  auto last_words = [&]() -> Task<> {
    co_await rank.output.until_over();
    co_await rank.errors.until_over();
  };
  try {
    Task<> settled = with_deadline(kLastWords, last_words());
    co_await settled;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::DeadlineExceeded) throw;  // somebody else keeps its output open
  }
  --explaining_;
  std::string text = fmt::format("rank {} (process {}{}) {}", rank.rank, rank.process.id(), place(),
                                 rank.status->describe());
  if (options_.keeps_going && running_count_ != 0)
    text += fmt::format("; {} still running", describe_ranks(running()));
  tasks_->spawn(say(std::move(text)));
  wake();
}

std::string LocalJob::place() const {
  return options_.share && !options_.share->name.empty() ? fmt::format(" on {}", options_.share->name)
                                                         : std::string();
}

}  // namespace cohort
