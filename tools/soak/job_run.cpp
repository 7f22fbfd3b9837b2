// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/job_run.h>

#include <cohort/engine/timer.h>
#include <cohort/engine/when_all.h>

#include <array>

namespace cohort::soak {
namespace {

constexpr std::size_t kHeapBytes = std::size_t{4} << 20;

Secret job_secret() {
  constexpr std::array<std::byte, Secret::kBytes> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  return Secret::from_bytes(bytes);
}

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

/// By the algorithm that was drawn, if it has such a schedule here, which is so on all ranks or on none.
Collective make_call(Communicator& comm, std::string_view algorithm, Buffers& own) {
  if (algorithm.empty()) return own.call(comm);
  try {
    return own.call(comm).with_algorithm(algorithm);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::InvalidArgument) throw;
  }
  return own.call(comm);
}

}  // namespace

JobRun::JobRun(Job job) : job_(std::move(job)), world_(job_.world), is_through_(job_.ranks, 0) {
  for (Rank rank = 0; rank < job_.ranks; ++rank) {
    outcomes_.emplace_back(job_.communicators.size());
    auto& of_rank = buffers_.emplace_back(job_.communicators.size());
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      const std::vector<CallPlan>& calls = job_.communicators[c].calls;
      outcomes_[rank][c].calls.resize(calls.size());
      for (std::size_t i = 0; i < calls.size(); ++i)
        of_rank[c].push_back(std::make_unique<Buffers>(call_of(job_, rank, c, i), rank, job_.ranks, i));
    }
  }
}

bool JobRun::run() {
  std::vector<std::function<void()>> bodies;
  for (Rank rank = 0; rank < job_.ranks; ++rank)
    bodies.emplace_back([self = shared_from_this(), rank] { self->run_rank(rank); });
  return world_.run(std::move(bodies));
}

void JobRun::run_rank(Rank rank) {
  Engine engine(world_.engine_options(rank));
  engine.run(take_part(engine, rank));
  is_through_[rank] = world_.is_over() ? 0 : 1;
}

Task<> JobRun::take_part(Engine& engine, Rank rank) {
  std::vector<Task<>> parts;
  for (std::size_t c = 0; c < job_.communicators.size(); ++c) parts.push_back(use(engine, rank, c));
  if (job_.is_concurrent) {
    co_await when_all(parts);
    co_return;
  }
  for (Task<>& part : parts) co_await std::move(part);
}

CommunicatorOptions JobRun::options_for(Rank rank, const CommunicatorPlan& plan) const {
  CommunicatorOptions options;
  options.join.name = plan.name;
  options.join.rank = rank;
  options.join.size = job_.ranks;
  options.join.address = plan.address;
  options.join.timeout = plan.join_timeout;
  if (plan.has_secret) options.join.secret = job_secret();
  options.buffer_bytes = plan.buffer_bytes;
  options.heap_bytes = kHeapBytes;
  options.pull_from_bytes = plan.pull_from_bytes;
  options.uses_huge_pages = false;
  const auto timeout = static_cast<double>(plan.timeout.count()) * job_.planted.deadline_factor;
  options.timeout = Duration(static_cast<Duration::rep>(timeout));
  options.is_isolated = plan.is_isolated;
  return options;
}

Task<> JobRun::use(Engine& engine, Rank rank, std::size_t communicator) {
  CommunicatorOutcome& outcome = outcomes_[rank][communicator];
  const TimePoint start = engine.now();
  try {
    CommunicatorOptions options = options_for(rank, job_.communicators[communicator]);
    Communicator comm = co_await Communicator::join(engine, std::move(options));
    outcome.has_joined = true;
    outcome.join_took = engine.now() - start;
    world_.note(rank, "joined", communicator);
    world_.mark(rank);
    co_await call_all(comm, rank, communicator);
    settle_buffers(outcome, rank, communicator);
    co_await comm.close();
  } catch (const Error& error) {
    outcome.join_error = error;
    outcome.join_took = engine.now() - start;
    world_.note(rank, "could not join", communicator, static_cast<std::uint64_t>(error.kind()));
  }
}

Task<> JobRun::call_all(Communicator& comm, Rank rank, std::size_t communicator) {
  const std::vector<CallPlan>& plans = job_.communicators[communicator].calls;
  CommunicatorOutcome& outcome = outcomes_[rank][communicator];
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (plans[i].is_allocated) buffers(rank, communicator, i).allocate(comm);
  for (std::size_t first = 0, end = 0; first < plans.size() && !comm.is_failed(); first = end) {
    for (end = first + 1; end < plans.size() && !plans[end].waits_for_last;) ++end;
    if (!goes_on(comm, communicator, first, end)) co_return;
    std::vector<Task<>> batch;
    for (std::size_t i = first; i < end; ++i) batch.push_back(call_once(comm, communicator, i));
    co_await when_all(batch);
    const bool is_cancelled = outcome.calls[end - 1].error && !comm.is_failed();
    if (is_cancelled) co_return;  // while it waited for its turn: the others went on without this rank
  }
  if (comm.is_failed()) co_await call_after_failure(comm, outcome);
}

bool JobRun::goes_on(Communicator& comm, std::size_t communicator, std::size_t first, std::size_t end) {
  const bool is_now = job_.deed && first <= job_.deed->call && job_.deed->call < end;
  if (is_now && has_deed(comm.rank(), communicator, Deed::Kind::aborts))
    comm.abort("a deed that was planned");
  return !is_now || !has_deed(comm.rank(), communicator, Deed::Kind::leaves);
}

Task<> JobRun::call_once(Communicator& comm, std::size_t communicator, std::size_t index) {
  const Rank rank = comm.rank();
  CallOutcome& outcome = outcomes_[rank][communicator].calls[index];
  Buffers& own = buffers(rank, communicator, index);
  outcome.is_asked = true;
  const TimePoint start = comm.engine().now();
  try {
    co_await await_call(comm, communicator, index, own);
    outcome.wrong_result = own.find_wrong_result();
  } catch (const Error& error) {
    outcome.error = error;
  }
  own.freeze();
  if (job_.planted.touches_old_buffers && rank == 0 && index == 0) own.touch();
  outcome.is_over = true;
  outcome.ended = comm.engine().now();
  outcome.took = outcome.ended - start;
  world_.note(rank, outcome.error ? "call fails" : "call is done", index,
              outcome.error ? static_cast<std::uint64_t>(outcome.error->kind()) : 0);
}

Task<> JobRun::await_call(Communicator& comm, std::size_t communicator, std::size_t index, Buffers& own) {
  const CallPlan plan = call_of(job_, comm.rank(), communicator, index);
  Collective collective = make_call(comm, plan.algorithm, own);
  const bool is_cancelled =
      has_deed(comm.rank(), communicator, Deed::Kind::cancels) && job_.deed->call == index;
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
  try {
    co_await comm.barrier();
  } catch (const Error& error) {
    outcome.later_error = error;
  }
}

void JobRun::settle_buffers(CommunicatorOutcome& outcome, Rank rank, std::size_t communicator) {
  for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
    Buffers& own = buffers(rank, communicator, i);
    const std::string touched = outcome.calls[i].is_over ? own.find_touched() : "";
    if (!touched.empty()) outcome.touched = fmt::format("call {}: {}", i + 1, touched);
    own.close();
  }
}

std::string JobRun::find_touched(Rank rank) const {
  for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
    const CommunicatorOutcome& of = outcome(rank, c);
    if (!of.touched.empty()) return of.touched;
    for (std::size_t i = 0; i < of.calls.size(); ++i)
      if (const std::string touched = buffers(rank, c, i).find_touched(); !touched.empty())
        return fmt::format("call {} of '{}': {}", i + 1, job_.communicators[c].name, touched);
  }
  return "";
}

}  // namespace cohort::soak
