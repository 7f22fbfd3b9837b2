// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/simulate.h>

#include <cohort/collectives/machines/stage/arrival.h>
#include <cohort/collectives/schedules/piece_over_links.h>
#include <cohort/engine/error.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace cohort::sim {
namespace {

/// A wait for all ranks of the host.
class ComingTogether final : public Operation {
 public:
  explicit ComingTogether(Machine& machine) noexcept : machine_(machine) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    if (!suspend(waiter, detail::scope_of(waiter))) return false;
    if (!machine_.meet(*this)) return true;
    unsuspend();
    return false;
  }
  void await_resume() const { throw_if_cancelled(); }

 private:
  void request_cancel() noexcept override { complete_cancelled(); }

  Machine& machine_;
};

Task<> come_together(Machine& machine) { co_await ComingTogether(machine); }

/// One rank on a Machine: the Exec that its schedule runs on.
class RankExec final : public Exec {
 public:
  /// `hosts` outlives it.
  RankExec(Machine& machine, Rank rank, const Hosts& hosts, const Setup& setup)
      : Exec(rank, machine.ranks(), &machine), machine_(machine), hosts_(hosts), setup_(setup) {
    own_plan().windows = setup.has_shared_buffers ? UserWindows::mapped : UserWindows::staged;
    own_plan().stage_bytes = setup.buffer_bytes;
  }

  [[nodiscard]] const Hosts& hosts() const noexcept override { return hosts_; }

  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return machine_.link(rank(), peer, lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return setup_.buffer_bytes; }
  [[nodiscard]] bool has_memory() const noexcept override { return false; }
  [[nodiscard]] Task<> pull(Rank peer, Slice to, Slice from) override {
    perform(copy_from(peer, to, from));
    co_return;
  }
  [[nodiscard]] Task<> push(Rank peer, Slice to, Slice from) override {
    perform(copy_to(peer, to, from));
    co_return;
  }
  [[nodiscard]] Reducer reducer(const Combine&) const noexcept override { return {}; }
  [[nodiscard]] Task<> phase() override { return come_together(machine_); }
  void perform(const LocalStep& step) override {
    if (step.kind() == LocalStep::Kind::finish_average) return;  // the sums here are not averaged
    std::size_t bytes = 0;
    for (const PlacedSlice& input : step.inputs()) bytes += input.slice.bytes;
    machine_.spend(step.kind(), bytes);
  }

 private:
  Machine& machine_;
  const Hosts& hosts_;
  const Setup& setup_;
};

/// One run of an algorithm by all ranks.
struct Run {
  const AnyAlgorithm& algorithm;
  Hosts hosts;
  OperatorArguments arguments;
  std::size_t piece_bytes = 0;
  bool is_host_wide = false;   ///< all ranks share one memory
  bool is_local = false;       ///< and then the local schedule runs
  std::vector<bool> refers{};  ///< by rank: its input stays where it lies
};

/// By the rank that brings most.
std::size_t announced_bytes(const Run& run, Operator op) {
  return run.arguments.bytes() * op.given_per_count(run.hosts.ranks());
}

/// As on a communicator: those that share memory meet; then the local schedule, or the other.
Task<> run_rank(Machine& machine, RankExec& x, const Run& run) {
  if (run.algorithm.announces() == Announces::data)
    machine::announce(x, run.algorithm, run.arguments, run.refers);
  if (x.ranks_of_host().size() > 1) co_await x.phase();
  if (run.is_local)
    co_await machine::run_local(x, run.algorithm, run.arguments);
  else
    co_await run.algorithm.run(x, run.arguments, run.piece_bytes);
  machine.finished();
}

/// Throws InvalidArgument for hosts that the algorithm does not fit.
Run plan(const AnyAlgorithm& algorithm, const Topology& topology, const Setup& setup) {
  const Operator op = algorithm.op();
  const std::size_t parts = op->has_data ? op.elements_per_count(setup.ranks) : 1;
  Run run{.algorithm = algorithm,
          .hosts = hosts_of(topology, setup.ranks),
          .arguments = {.count = op->has_data ? setup.bytes / parts / size_bytes(setup.type) : 0,
                        .element_bytes = size_bytes(setup.type),
                        .combine = Combine(setup.type, ReduceOp::sum, setup.ranks),
                        .root = setup.root}};
  if (!algorithm.fits(run.hosts))
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("algorithm '{}' needs {}", algorithm.name(), hosts_needed(algorithm.levels())));
  run.is_host_wide = has_one_memory(topology, setup.ranks);
  run.is_local = algorithm.announces() == Announces::data ||
                 (algorithm.announces() == Announces::windows && setup.has_shared_buffers);
  const bool may_refer = setup.has_shared_buffers && algorithm.may_refer(announced_bytes(run, op));
  run.refers.assign(setup.ranks, may_refer);
  std::size_t largest = algorithm.largest_piece(setup.buffer_bytes, run.hosts);
  if (topology.cache_bytes != 0 && !run.is_host_wide && has_one_host(topology, setup.ranks))
    largest = piece_over_links(algorithm, largest, run.arguments.bytes(), run.hosts, topology.cache_bytes);
  run.piece_bytes = piece_bytes(run.arguments.bytes(), run.arguments.element_bytes, largest);
  return run;
}

}  // namespace

double predicted_messages(const AnyAlgorithm& algorithm, const Topology& topology, const Setup& setup) {
  const Run run = plan(algorithm, topology, setup);
  const double bytes = static_cast<double>(run.arguments.bytes());
  const double runs = run.piece_bytes == 0 ? 1 : std::max(1.0, bytes / static_cast<double>(run.piece_bytes));
  return runs * algorithm.cost(run.piece_bytes, run.hosts).messages;
}

Prediction simulate(const AnyAlgorithm& algorithm, const Topology& topology, const Setup& setup,
                    const Watchers& watchers) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorKind::InvalidArgument, text); };
  if (setup.root >= setup.ranks) refuse(fmt::format("root {} of {} ranks", setup.root, setup.ranks));
  if (!algorithm.objection().empty())
    refuse(fmt::format("algorithm '{}' cannot run: {}", algorithm.name(), algorithm.objection()));
  check(topology, setup.ranks);
  const Run run = plan(algorithm, topology, setup);
  if (algorithm.scope() == Scope::node && !run.is_host_wide)
    refuse(fmt::format("{} needs all ranks on one host, over shared memory", algorithm.name()));
  if ((algorithm.scope() == Scope::self) != (setup.ranks == 1))
    refuse(
        fmt::format("{} is {}for a communicator of one", algorithm.name(), setup.ranks == 1 ? "not " : ""));
  const std::size_t announced = announced_bytes(run, algorithm.op());
  if (algorithm.announces() == Announces::data && announced > tuning::slots::kMostBytes)
    refuse(fmt::format("{} carries {} bytes per rank at most, not {}", algorithm.name(),
                       tuning::slots::kMostBytes, announced));
  Machine machine(topology, setup.ranks, setup.seed, watchers);
  std::vector<std::unique_ptr<RankExec>> execs;
  std::vector<Task<>> ranks;
  for (Rank rank = 0; rank < setup.ranks; ++rank) {
    execs.push_back(std::make_unique<RankExec>(machine, rank, run.hosts, setup));
    ranks.push_back(run_rank(machine, *execs.back(), run));
  }
  Prediction prediction;
  try {
    machine.run(std::move(ranks));
    prediction.did_end = true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Cancelled) throw;
  }
  prediction.microseconds = in_microseconds(machine.end());
  prediction.messages = machine.messages();
  prediction.uses = machine.network().uses();
  prediction.complaints = machine.complaints();
  return prediction;
}

}  // namespace cohort::sim
