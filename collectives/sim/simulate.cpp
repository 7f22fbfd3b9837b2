// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/sim/simulate.h>

#include <cohort/collectives/check/shape.h>
#include <cohort/collectives/pieces.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

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
  RankExec(Machine& machine, Rank rank, std::size_t buffer_bytes)
      : Exec(rank, machine.ranks()), machine_(machine), buffer_bytes_(buffer_bytes) {}

  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return machine_.link(rank(), peer, lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return buffer_bytes_; }
  [[nodiscard]] bool maps_user_windows() const noexcept override { return false; }
  [[nodiscard]] bool reads_user_windows() const noexcept override { return false; }
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
  const std::size_t buffer_bytes_;
};

template <class Op>
Task<> run_rank(Machine& machine, RankExec& x, const Algorithm<Op>& algorithm, Op op, std::size_t piece) {
  co_await run_in_pieces(algorithm, x, op, piece);
  machine.finished();
}

}  // namespace

template <class Op>
Prediction simulate(const Algorithm<Op>& algorithm, const Topology& topology, const Setup& setup,
                    const Trace* trace) {
  if (setup.root >= setup.ranks)
    throw Error(ErrorKind::InvalidArgument, fmt::format("root {} of {} ranks", setup.root, setup.ranks));
  check(topology, setup.ranks);
  Machine machine(topology, setup.ranks, setup.seed, trace);
  if (algorithm.needs_mapped_group && machine.network().hosts() > 1)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{} needs all ranks on one host; the topology has {} hosts",
                            to_string(algorithm.id), machine.network().hosts()));
  check::CheckOptions shape;
  shape.ranks = setup.ranks;
  shape.root = setup.root;
  shape.count = setup.bytes / size_bytes(shape.type);
  shape.reduce = ReduceOp::sum;
  const Op op = check::Shape<Op>::op(shape);
  std::size_t piece = 0;
  if constexpr (!std::same_as<Op, Barrier>)
    piece = piece_bytes(op.size_bytes(), op.element_bytes,
                        algorithm.largest_piece(setup.buffer_bytes, setup.ranks));
  std::vector<std::unique_ptr<RankExec>> execs;
  std::vector<Task<>> ranks;
  for (Rank rank = 0; rank < setup.ranks; ++rank) {
    execs.push_back(std::make_unique<RankExec>(machine, rank, setup.buffer_bytes));
    ranks.push_back(run_rank(machine, *execs.back(), algorithm, op, piece));
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
