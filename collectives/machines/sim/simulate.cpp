// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/simulate.h>

#include <cohort/collectives/call/pieces.h>
#include <cohort/collectives/machines/check/shape.h>
#include <cohort/collectives/machines/sim/slots.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <memory>
#include <numeric>
#include <span>

namespace cohort::sim {
namespace {

/// A wait for all ranks.
class Meeting final : public Operation {
 public:
  explicit Meeting(Machine& machine) noexcept : machine_(machine) {}

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

Task<> come_together(Machine& machine) { co_await Meeting(machine); }

/// One rank on a Machine: the Exec that its schedule runs on.
class RankExec final : public Exec {
 public:
  /// `ranks_of_host` outlives it.
  RankExec(Machine& machine, Rank rank, std::span<const Rank> ranks_of_host, const Setup& setup)
      : Exec(rank, machine.ranks()), machine_(machine), ranks_of_host_(ranks_of_host), setup_(setup) {}

  [[nodiscard]] std::span<const Rank> ranks_of_host() const noexcept override { return ranks_of_host_; }

  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return machine_.link(rank(), peer, lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return setup_.buffer_bytes; }
  [[nodiscard]] bool maps_user_windows() const noexcept override { return setup_.has_shared_buffers; }
  [[nodiscard]] bool reads_user_windows() const noexcept override { return setup_.has_shared_buffers; }
  [[nodiscard]] Task<> pull(Rank peer, Slice to, Slice from) override {
    perform(copy_from(peer, to, from));
    co_return;
  }
  [[nodiscard]] Reducer reducer(const Combine&) const noexcept override { return {}; }
  void finish_average(const Combine&, const Slice&) override {}
  [[nodiscard]] Task<> phase() override { return come_together(machine_); }
  void perform(const LocalStep& step) override {
    std::size_t bytes = 0;
    for (const PlacedSlice& input : step.inputs()) bytes += input.slice.bytes;
    machine_.spend(step.kind(), bytes);
  }

 private:
  Machine& machine_;
  const std::span<const Rank> ranks_of_host_;
  const Setup& setup_;
};

/// One run of an algorithm by all ranks.
template <class Op>
struct Run {
  const Algorithm<Op>& algorithm;
  Op op;
  std::size_t piece_bytes = 0;
  bool meets_first = false;  ///< as all ranks of one host do, over shared memory
};

/// As on a communicator: meet, where ranks share memory; then, unless that was all, the schedule.
template <class Op>
Task<> run_rank(Machine& machine, RankExec& x, const Run<Op>& run) {
  SlotWork slots;
  if (run.meets_first && run.algorithm.id == AlgorithmId::one_shot)
    slots = slot_work(run.op, x.rank(), x.size());
  machine.spend(LocalStep::Kind::copy, slots.bytes_in);
  if (run.meets_first) co_await x.phase();
  machine.spend(slots.kind, slots.bytes_out);
  if (!slots.fits) co_await run_in_pieces(run.algorithm, x, run.op, run.piece_bytes);
  machine.finished();
}

template <class Op>
Run<Op> plan(const Algorithm<Op>& algorithm, const Topology& topology, const Setup& setup) {
  constexpr bool counts_one_rank = std::same_as<Op, AllGather> || std::same_as<Op, ReduceScatter>;
  const std::size_t parts = counts_one_rank ? setup.ranks : 1;
  check::CheckOptions shape;
  shape.ranks = setup.ranks;
  shape.root = setup.root;
  shape.count = setup.bytes / parts / size_bytes(shape.type);
  shape.reduce = ReduceOp::sum;
  Run<Op> run{.algorithm = algorithm, .op = check::Shape<Op>::op(shape)};
  run.meets_first = topology.has_shared_memory && setup.ranks <= topology.ranks_per_host;
  if constexpr (!std::same_as<Op, Barrier>) {
    std::size_t largest = algorithm.largest_piece(setup.buffer_bytes, setup.ranks);
    if (topology.cache_bytes != 0 && !run.meets_first)
      largest = std::min(largest, topology.cache_bytes / parts);
    run.piece_bytes = piece_bytes(run.op.size_bytes(), run.op.element_bytes, largest);
  }
  return run;
}

}  // namespace

template <class Op>
Prediction simulate(const Algorithm<Op>& algorithm, const Topology& topology, const Setup& setup,
                    const Trace* trace) {
  if (setup.root >= setup.ranks)
    throw Error(ErrorKind::InvalidArgument, fmt::format("root {} of {} ranks", setup.root, setup.ranks));
  check(topology, setup.ranks);
  const Run<Op> run = plan(algorithm, topology, setup);
  if (algorithm.needs_mapped_group && !run.meets_first)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{} needs all ranks on one host, over shared memory", to_string(algorithm.id)));
  Machine machine(topology, setup.ranks, setup.seed, trace);
  std::vector<Rank> all_ranks(setup.ranks);
  std::iota(all_ranks.begin(), all_ranks.end(), Rank{0});
  // Without shared memory every rank is by itself, as over TCP.
  const Rank per_host = topology.has_shared_memory ? topology.ranks_per_host : 1;
  std::vector<std::unique_ptr<RankExec>> execs;
  std::vector<Task<>> ranks;
  for (Rank rank = 0; rank < setup.ranks; ++rank) {
    const Rank first = rank - rank % per_host;
    const auto of_host = std::span(all_ranks).subspan(first, std::min(per_host, setup.ranks - first));
    execs.push_back(std::make_unique<RankExec>(machine, rank, of_host, setup));
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

template Prediction simulate(const Algorithm<Barrier>&, const Topology&, const Setup&, const Trace*);
template Prediction simulate(const Algorithm<Broadcast>&, const Topology&, const Setup&, const Trace*);
template Prediction simulate(const Algorithm<AllReduce>&, const Topology&, const Setup&, const Trace*);
template Prediction simulate(const Algorithm<AllGather>&, const Topology&, const Setup&, const Trace*);
template Prediction simulate(const Algorithm<ReduceScatter>&, const Topology&, const Setup&, const Trace*);

}  // namespace cohort::sim
