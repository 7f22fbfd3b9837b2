// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/rank_exec.h>

#include <cohort/collectives/machines/stage/arrival.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

namespace cohort::check {
namespace {

TaskKind kind_of(LinkOperation::Kind kind) {
  using Kind = LinkOperation::Kind;
  switch (kind) {
    case Kind::post: return TaskKind::post;
    case Kind::wait: return TaskKind::wait;
    case Kind::put: return TaskKind::put;
    case Kind::get: return TaskKind::get;
    case Kind::get_reduce: return TaskKind::get_reduce;
    case Kind::send: return TaskKind::send;
    case Kind::recv: return TaskKind::recv;
    case Kind::recv_reduce: return TaskKind::recv_reduce;
  }
  return TaskKind::post;
}

Combine combine_of(const Reducer& reducer) {
  Combine combine;
  combine.type = static_cast<DataType>(reducer.type);
  combine.op = static_cast<ReduceOp>(reducer.op);
  combine.average_over = reducer.average_over;
  return combine;
}

/// A wait for all ranks.
class Arrival final : public Operation {
 public:
  Arrival(Machine& machine, Rank rank, TaskKind kind) noexcept
      : machine_(machine), rank_(rank), kind_(kind) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    if (!suspend(waiter, detail::scope_of(waiter))) return false;
    if (!machine_.carry_out(rank_, {.kind = kind_}, this)) return true;
    unsuspend();
    return false;
  }
  void await_resume() const { throw_if_cancelled(); }

 private:
  void request_cancel() noexcept override { complete_cancelled(); }

  Machine& machine_;
  const Rank rank_;
  const TaskKind kind_;
};

Task<> come_together(Machine& machine, Rank rank, TaskKind kind) { co_await Arrival(machine, rank, kind); }

}  // namespace

class RankExec::OneLink final : public Link, public machine::InCaseMemory {
 public:
  OneLink(Machine& machine, Rank rank, Rank peer, Lane lane) noexcept
      : Link(peer), machine_(machine), rank_(rank), lane_(lane) {}

  [[nodiscard]] std::string_view transport() const noexcept override { return "check"; }

 private:
  bool start(LinkOperation& operation) override {
    const LinkOperation::Request& request = operation.request();
    return machine_.carry_out(rank_,
                              {.kind = kind_of(request.kind),
                               .peer = peer(),
                               .lane = lane_,
                               .signal = request.signal,
                               .local = request.local,
                               .remote = request.remote,
                               .combine = combine_of(request.reducer)},
                              &operation);
  }
  void cancel(LinkOperation& operation) noexcept override { operation.finish(); }

  Machine& machine_;
  const Rank rank_;
  const Lane lane_;
};

RankExec::RankExec(Machine& machine, Rank rank)
    : Exec(rank, machine.ranks(), &machine),
      machine_(machine),
      links_(static_cast<std::size_t>(machine.ranks()) * kMostLanes) {}

RankExec::~RankExec() = default;

const Hosts& RankExec::hosts() const {
  if (machine_.plan().has_levels) return machine_.plan().hosts;
  const std::string objection =
      "asks which ranks share hosts, where its algorithm says that it does not: set its levels to "
      "Levels::any_hosts, or to what it needs";
  machine_.refuse(rank(), objection);
  throw Error(ErrorKind::InvalidArgument, objection);
}

Link& RankExec::link(Rank peer, Lane lane) {
  const std::string objection = machine_.objection_to_link(rank(), peer, lane);
  if (!objection.empty()) {
    machine_.refuse(rank(), objection);
    throw Error(ErrorKind::InvalidArgument, objection);
  }
  std::unique_ptr<OneLink>& link = links_[static_cast<std::size_t>(peer) * kMostLanes + lane];
  if (!link) link = std::make_unique<OneLink>(machine_, rank(), peer, lane);
  return *link;
}

Reducer RankExec::reducer(const Combine& combine) const noexcept {
  return {.fold = nullptr,
          .type = static_cast<std::uint8_t>(combine.type),
          .op = static_cast<std::uint8_t>(combine.op),
          .element_bytes = static_cast<std::uint8_t>(size_bytes(combine.type))};
}

Task<> RankExec::pull(Rank peer, Slice to, Slice from) {
  reach(TaskKind::pull, {rank(), to}, {peer, from});
  co_return;
}

Task<> RankExec::push(Rank peer, Slice to, Slice from) {
  reach(TaskKind::push, {peer, to}, {rank(), from});
  co_return;
}

void RankExec::reach(TaskKind kind, const PlacedSlice& to, const PlacedSlice& from) {
  (void)machine_.carry_out(
      rank(), {.kind = kind, .outputs = std::span(&to, 1), .inputs = std::span(&from, 1)}, nullptr);
}

void RankExec::begin(std::uint32_t operations) {
  operations_before_ = operations;
  own_plan() = machine_.plan().host;
  own_plan().staged_calls += operations * machine_.plan().staged_by_each;
  if (!machine_.plan().has_levels) return;
  for (Exec* const level : {&inside(), &across()}) {
    level->use_scratch_from(kUnsaidScratch);
    level->inside().use_scratch_from(kUnsaidScratch);
    level->across().use_scratch_from(kUnsaidScratch);
  }
}

void RankExec::announce(const AnyAlgorithm& algorithm, const OperatorArguments& arguments) {
  machine::announce(*this, algorithm, arguments, machine_.plan().refers);
}

Task<> RankExec::catch_up() {
  if (machine_.plan().goes_ahead && operations_before_ != 0)
    co_await Arrival(machine_, rank(), TaskKind::catch_up);
}
Task<> RankExec::meet() { return come_together(machine_, rank(), TaskKind::begin); }
Task<> RankExec::phase() { return come_together(machine_, rank(), TaskKind::phase); }

void RankExec::perform(const LocalStep& step) {
  if (step.kind() == LocalStep::Kind::finish_average) {
    (void)machine_.carry_out(
        rank(),
        {.kind = TaskKind::finish_average, .local = step.outputs().front().slice, .combine = step.combine()},
        nullptr);
    return;
  }
  const bool is_copy = step.kind() == LocalStep::Kind::copy;
  (void)machine_.carry_out(rank(),
                           {.kind = is_copy ? TaskKind::copy : TaskKind::reduce,
                            .outputs = step.outputs(),
                            .inputs = step.inputs(),
                            .combine = step.combine()},
                           nullptr);
}

}  // namespace cohort::check
