// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/job_run.h>

#include <cohort/engine/timer.h>
#include <cohort/engine/when_all.h>
#include <cohort/engine/world/platform.h>

#include <array>

namespace cohort::soak {
namespace {

constexpr std::size_t kHeapBytes = std::size_t{64} << 20;  // groups have their buffers there

Secret job_secret(bool is_of_rival) {
  const std::array<std::byte, Secret::kBytes> bytes{
      std::byte{1}, std::byte{2}, std::byte{static_cast<unsigned char>(is_of_rival ? 4 : 3)}};
  return Secret::from_bytes(bytes);
}

Task<> run_together(std::vector<Task<>> parts) { co_await when_all(parts); }

/// Cancels a scope at a moment, if it lives that long.
class CancelAt final : private Timer {
 public:
  CancelAt(Engine& engine, CancelScope& scope, TimePoint when) : scope_(scope) {
    engine.timers().arm(*this, when);
  }

 private:
  void expire() noexcept override { scope_.cancel(); }
  CancelScope& scope_;
};

/// The world, with the bugs that are planted in it.
world::Settings world_of(const Job& job) {
  world::Settings world = job.world;
  for (world::DeadProcess& dead : world.dead) dead.is_silent = dead.is_silent || job.planted.hears_no_death;
  return world;
}

}  // namespace

JobRun::JobRun(Job job) : job_(std::move(job)), world_(world_of(job_)), is_through_(job_.processes(), 0) {
  for (Process process = 0; process < job_.processes(); ++process) {
    // Other contents than those of the first job: ranks that meet those of the other one have wrong results.
    const bool has_other_contents = job_.is_rival(process) && job_.rival->kind != Rival::Kind::twin;
    outcomes_.emplace_back(job_.communicators.size());
    auto& of_process = buffers_.emplace_back(job_.communicators.size());
    group_buffers_.emplace_back(job_.communicators.size());
    parcels_.emplace_back(job_.communicators.size());
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      const std::size_t calls = job_.communicators[c].calls.size();
      outcomes_[process][c].calls.resize(calls);
      for (std::size_t i = 0; i < calls; ++i)
        of_process[c].push_back(std::make_unique<Buffers>(call_of(job_, process, c, i), job_.rank_of(process),
                                                          job_.size_of(process),
                                                          has_other_contents ? i + 1 : i));
      prepare_beside(process, c);
    }
  }
}

bool JobRun::run() {
  std::vector<std::function<void()>> bodies;
  for (Process process = 0; process < job_.processes(); ++process)
    bodies.emplace_back([self = shared_from_this(), process] { self->run_process(process); });
  return world_.run(std::move(bodies));
}

void JobRun::run_process(Process process) {
  Engine engine(world_.engine_options(process));
  engine.run(take_part(engine, process));
  is_through_[process] = world_.is_over() ? 0 : 1;
}

Task<> JobRun::take_part(Engine& engine, Process process) {
  if (process < job_.begins_after.size()) co_await engine.sleep_for(job_.begins_after[process]);
  std::vector<Task<>> parts;
  for (std::size_t c = 0; c < job_.communicators.size(); ++c) parts.push_back(use(engine, process, c));
  if (job_.is_concurrent) {
    co_await when_all(parts);
    co_return;
  }
  for (Task<>& part : parts) co_await std::move(part);
}

CommunicatorOptions JobRun::options_for(Process process, const CommunicatorPlan& plan) const {
  const auto differs = [&](Rival::Kind kind) {
    return job_.is_rival(process) && job_.rival->kind == kind && !job_.planted.mixes_rivals;
  };
  CommunicatorOptions options;
  options.join.name = plan.name + (differs(Rival::Kind::other_name) ? "-second" : "");
  options.join.rank = job_.rank_of(process);
  options.join.size = job_.size_of(process);
  options.join.address = plan.address;
  options.join.timeout = plan.join_timeout;
  options.join.job = differs(Rival::Kind::other_start) ? "second" : "";
  if (plan.has_secret) options.join.secret = job_secret(differs(Rival::Kind::other_secret));
  options.buffer_bytes = plan.buffer_bytes;
  options.heap_bytes = kHeapBytes;
  options.pull_from_bytes = plan.pull_from_bytes;
  options.tcp_connections = plan.connections;
  options.uses_huge_pages = false;
  const auto timeout = static_cast<double>(plan.timeout.count()) * job_.planted.deadline_factor;
  options.timeout = Duration(static_cast<Duration::rep>(timeout));
  options.is_isolated = plan.is_isolated;
  return options;
}

Task<std::optional<Error>> error_of(Task<> task) {
  try {
    co_await task;
  } catch (const Error& error) {
    co_return error;
  }
  co_return std::nullopt;
}

Task<> JobRun::use(Engine& engine, Process process, std::size_t communicator) {
  CommunicatorOutcome& outcome = outcomes_[process][communicator];
  const TimePoint start = engine.now();
  try {
    CommunicatorOptions options = options_for(process, job_.communicators[communicator]);
    Communicator comm = co_await Communicator::join(engine, std::move(options));
    outcome.has_joined = true;
    outcome.join_took = engine.now() - start;
    world_.note(process, "joined", communicator);
    world_.mark(process);
    co_await take_all_parts(comm, process, communicator);
    settle_buffers(outcome, process, communicator);
    const std::optional<Error> last = co_await error_of(comm.close());
    outcome.end_error = last;
  } catch (const Error& error) {
    outcome.join_error = error;
    outcome.join_took = engine.now() - start;
    world_.note(process, "could not join", communicator, static_cast<std::uint64_t>(error.kind()));
  }
}

/// A split is a call, too, and on all ranks the first.
Task<> JobRun::take_all_parts(Communicator& comm, Process process, std::size_t communicator) {
  const CommunicatorPlan& plan = job_.communicators[communicator];
  std::vector<Task<>> parts;
  if (plan.group) parts.push_back(use_group(comm, process, communicator));
  if (!plan.messages.empty()) parts.push_back(exchange_messages(comm, process, communicator));
  if (parts.empty()) return call_all(comm, process, communicator);
  parts.push_back(call_all(comm, process, communicator));
  return run_together(std::move(parts));
}

Task<> JobRun::call_all(Communicator& comm, Process process, std::size_t communicator) {
  const std::vector<CallPlan>& plans = job_.communicators[communicator].calls;
  CommunicatorOutcome& outcome = outcomes_[process][communicator];
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (plans[i].is_allocated) buffers(process, communicator, i).allocate(comm);
  for (std::size_t first = 0, end = 0; first < plans.size() && !comm.is_failed(); first = end) {
    for (end = first + 1; end < plans.size() && !plans[end].waits_for_last;) ++end;
    co_await be_late(comm.engine(), process, communicator, first, end);
    if (!goes_on(comm, process, communicator, first, end)) co_return;
    std::vector<Task<>> batch;
    for (std::size_t i = first; i < end; ++i) batch.push_back(call_once(comm, process, communicator, i));
    co_await when_all(batch);
    const bool is_cancelled = outcome.calls[end - 1].error && !comm.is_failed();
    if (is_cancelled) co_return;  // while it waited for its turn: the others went on without this rank
  }
  if (!comm.is_failed()) co_return;
  co_await call_after_failure(comm, outcome);
  if (job_.lingers == Duration::zero()) co_return;
  co_await comm.engine().sleep_for(job_.lingers);
}

Task<> JobRun::be_late(Engine& engine, Process process, std::size_t communicator, std::size_t first,
                       std::size_t end) {
  for (const Lateness& late : job_.late) {
    const bool is_now =
        late.rank == process && late.communicator == communicator && first <= late.call && late.call < end;
    if (!is_now) continue;
    world_.note(process, "is late", late.call);
    if (late.is_busy)
      dynamic_cast<world::WorldPlatform&>(engine.platform()).compute(late.by);
    else
      co_await engine.sleep_for(late.by);
  }
}

bool JobRun::goes_on(Communicator& comm, Process process, std::size_t communicator, std::size_t first,
                     std::size_t end) {
  const bool is_now = job_.deed && first <= job_.deed->call && job_.deed->call < end;
  if (is_now && has_deed(process, communicator, Deed::Kind::aborts)) comm.abort("a deed that was planned");
  return !is_now || !has_deed(process, communicator, Deed::Kind::leaves);
}

Task<> JobRun::call_once(Communicator& comm, Process process, std::size_t communicator, std::size_t index) {
  CallOutcome& outcome = outcomes_[process][communicator].calls[index];
  outcome.is_asked = true;
  const TimePoint start = comm.engine().now();
  try {
    co_await await_call(comm, process, communicator, index);
    outcome.wrong_result = buffers(process, communicator, index).find_wrong_result();
  } catch (const Error& error) {
    outcome.error = error;
  }
  buffers(process, communicator, index).freeze();
  touch_what_is_over(process, communicator, index);
  outcome.is_over = true;
  outcome.ended = comm.engine().now();
  outcome.took = outcome.ended - start;
  world_.note(process, outcome.error ? "call fails" : "call is done", index,
              outcome.error ? static_cast<std::uint64_t>(outcome.error->kind()) : 0);
}

void JobRun::touch_what_is_over(Process process, std::size_t communicator, std::size_t index) {
  if (job_.planted.touches_old_buffers && process == 0 && index == 0)
    buffers(process, communicator, index).touch();
  if (!job_.planted.touches_peers_late || !outcomes_[process][communicator].calls[index].error) return;
  for (Process peer = 0; peer < job_.processes(); ++peer)
    if (outcomes_[peer][communicator].calls[index].is_over) buffers(peer, communicator, index).touch();
}

Task<> JobRun::await_call(Communicator& comm, Process process, std::size_t communicator, std::size_t index) {
  const CallPlan plan = call_of(job_, process, communicator, index);
  Collective collective = call_by(comm, buffers(process, communicator, index), plan.algorithm);
  const bool is_cancelled = has_deed(process, communicator, Deed::Kind::cancels) && job_.deed->call == index;
  if (!is_cancelled) {
    co_await std::move(collective);
    co_return;
  }
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  Task<> task = with_scope(scope, Task<>(std::move(collective)));
  const CancelAt timer(comm.engine(), scope, after(comm.engine().now(), job_.deed->after));
  co_await task;
}

/// The communicator says the same to every call from now on.
Task<> JobRun::call_after_failure(Communicator& comm, CommunicatorOutcome& outcome) {
  const std::optional<Error> later = co_await error_of(comm.barrier());
  outcome.later_error = later;
}

void JobRun::settle_buffers(CommunicatorOutcome& outcome, Process process, std::size_t communicator) {
  for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
    Buffers& own = buffers(process, communicator, i);
    const std::string touched = outcome.calls[i].is_over ? own.find_touched() : "";
    if (!touched.empty()) outcome.touched = fmt::format("call {}: {}", i + 1, touched);
    own.close();
  }
}

std::string JobRun::find_touched(Process process) const {
  for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
    const CommunicatorOutcome& of = outcome(process, c);
    if (!of.touched.empty()) return of.touched;
    for (std::size_t i = 0; i < of.calls.size(); ++i)
      if (const std::string touched = buffers(process, c, i).find_touched(); !touched.empty())
        return fmt::format("call {} of '{}': {}", i + 1, job_.communicators[c].name, touched);
    if (std::string touched = find_touched_beside(process, c); !touched.empty()) return touched;
  }
  return "";
}

}  // namespace cohort::soak
