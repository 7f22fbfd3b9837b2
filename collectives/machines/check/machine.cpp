// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/machine.h>

#include <cohort/collectives/machines/check/deadlock.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {

Machine::Machine(const Plan& plan, const Fault* fault)
    : Stage(plan.ranks, plan.seed),
      plan_(plan),
      fault_(fault),
      order_(plan.ranks),
      expressions_(plan.ranks, plan.has_parts),
      ranks_(plan.ranks) {
  for (Rank rank = 0; rank < plan.ranks; ++rank) {
    for (const std::size_t bytes : plan.shares[rank].allocations)
      ranks_[rank].memories.emplace_back(bytes, Value{});
    for (std::size_t window = 0; window < kWindows; ++window) {
      const WindowPlace& place = plan.shares[rank].windows[window];
      Memory& memory = ranks_[rank].memories[place.allocation];
      if (place.offset == 0 && place.bytes == memory.size_bytes())
        memory = Memory(place.bytes, {expressions_.leftover(static_cast<WindowId>(window)), 0});
    }
  }
}

Machine::~Machine() = default;

void Machine::add_states(StreamId last) {
  streams_.resize(std::max<std::size_t>(std::size_t{last} + 1, streams()));
}

void Machine::forked(StreamId parent, StreamId child) noexcept {
  order_.fork(parent, child);
  (void)state(std::max(parent, child));
  streams_[child].rounds = streams_[parent].rounds;
  streams_[child].path_bytes = streams_[parent].path_bytes;
}

void Machine::joined(StreamId parent, std::span<const StreamId> children) noexcept {
  order_.join(parent, children);
  ++state(parent).forks;
  for (const StreamId child : children) {
    (void)state(std::max(parent, child));
    streams_[parent].rounds = std::max(streams_[parent].rounds, streams_[child].rounds);
    streams_[parent].path_bytes = std::max(streams_[parent].path_bytes, streams_[child].path_bytes);
  }
}

void Machine::stuck() { Deadlock(*this).explain(); }

/// Numbers the task and writes it down.
TaskId Machine::admit(const TaskRequest& request) {
  const StreamId stream = running();
  const Rank rank = rank_of(stream);
  StreamState& of = state(stream);
  if (of.operation != ranks_[rank].operation) {
    of.operation = ranks_[rank].operation;
    of.number = 0;
  }
  TaskRecord task = record(request, rank);
  task.stream = stream;
  task.operation = of.operation;
  const bool is_edge =
      request.kind == TaskKind::begin || request.kind == TaskKind::catch_up || request.kind == TaskKind::end;
  task.number = is_edge ? 0 : ++of.number;
  order_.tick(stream);
  tasks_.push_back(task);
  expressions_.work_for(static_cast<std::uint32_t>(tasks_.size() - 1));
  return of.task = static_cast<TaskId>(tasks_.size() - 1);
}

/// A stream does one thing after the other, and waits for nothing but its machine. What else acts in its name
/// is a task that the machine does not know, whose order it cannot prove.
bool Machine::is_of_stream(Rank rank, const TaskRequest& request, const Operation* operation) {
  if (acts_as_running(rank, operation) && !state(running()).is_waiting) return true;
  TaskRecord task = record(request, rank);
  findings_.push_back(
      {FindingKind::usage,
       rank,
       {},
       0,
       ranks_[rank].operation,
       fmt::format(
           "rank {}: {} comes from no stream of the schedule: from a task of when_all or of a TaskScope, "
           "or after a wait for a timer, an Event or a Notify of its own; fork with x.fork_join, and wait "
           "for links, x.notify() and x.phase() only",
           rank, describe(task))});
  give_up();
  return false;
}

/// Lets the fault, if one is planted, see the task before it is carried out.
Fate Machine::alter(Rank rank, TaskRequest& request) {
  StreamState& of = state(running());
  of.rest.clear();
  if (fault_ == nullptr || request.kind == TaskKind::begin || request.kind == TaskKind::catch_up)
    return Fate::keep;
  const std::uint32_t number = of.operation == ranks_[rank].operation ? of.number : 0;
  Fated fated = (*fault_)({ranks_[rank].operation, rank, name_of(running()), number + 1, of.forks}, request);
  if (fated.fate == Fate::twice) fated.then.push_back(request);
  of.rest.assign(fated.then.rbegin(), fated.then.rend());
  return fated.fate;
}

bool Machine::carry_out(Rank rank, TaskRequest request, Operation* operation) {
  if (is_ending() || !is_of_stream(rank, request, operation)) return true;
  const Fate fate = alter(rank, request);
  if (fate == Fate::drop) tasks_.resize(admit(request));  // it leaves its number behind
  return (fate == Fate::drop || begin_task(request, operation)) && begin_rest(operation);
}

bool Machine::begin_task(const TaskRequest& request, Operation* operation) {
  const TaskId task = admit(request);
  const bool is_complete = dispatch(request, task, operation);
  if (!is_complete) state(running()).is_waiting = true;
  return is_complete;
}

/// Until one of them waits; true when all are over.
bool Machine::begin_rest(Operation* operation) {
  while (!state(running()).rest.empty() && !is_ending()) {
    StreamState& of = state(running());
    const TaskRequest next = of.rest.back();
    of.rest.pop_back();
    --of.number;  // which admit() gives again
    if (!begin_task(next, operation)) return false;
  }
  return true;
}

bool Machine::goes_on(Operation& operation) { return begin_rest(&operation); }

bool Machine::dispatch(const TaskRequest& request, TaskId task, Operation* operation) {
  check_contracts(request, task);
  switch (request.kind) {
    case TaskKind::copy:
    case TaskKind::pull:
    case TaskKind::push: copy(request, now(task)); return true;
    case TaskKind::reduce: reduce(request, now(task)); return true;
    case TaskKind::finish_average: finish_average(request, now(task)); return true;
    case TaskKind::catch_up: return catch_up(task, operation);
    case TaskKind::begin:
    case TaskKind::phase: return arrive(request, task, operation);
    case TaskKind::notify_post: post_notify(request.notify, task); return true;
    case TaskKind::notify_wait: return wait_for_notify(request.notify, task, operation);
    default: return on_link(request, task, operation);
  }
}

void Machine::copy(const TaskRequest& request, const Access& by) {
  const PlacedSlice& to = request.outputs.front();
  const PlacedSlice& from = request.inputs.front();
  const std::optional<Interval> target = interval_of(to);
  const bool is_same_place = target && target == interval_of(from);
  if (to.slice.bytes != from.slice.bytes)
    add(FindingKind::bounds, by.task,
        fmt::format("copies {} bytes to a slice of {}; give both slices the same size", from.slice.bytes,
                    to.slice.bytes));
  const bool may = may_touch(from.rank, from.slice, false, by.task, false) &&
                   may_touch(to.rank, to.slice, true, by.task, false);
  if (!may || is_same_place) return;
  const Content content = read(from.rank, from.slice, by);
  write(to.rank, to.slice, content, by);
  const Rank rank = tasks_[by.task].rank;
  Traffic& traffic = counting(rank);
  const bool is_stored = from.rank == rank && to.rank != rank;
  const bool is_taken = from.rank != rank;
  (is_taken ? traffic.received : is_stored ? traffic.stored_at_peers : traffic.copied) += from.slice.bytes;
  if (is_taken) state(tasks_[by.task].stream).path_bytes += from.slice.bytes;
}

Content Machine::combine(const Content& left, const Content& right, TaskId task, Step step) {
  Content result;
  visit_together(left, right, [&](std::size_t bytes, const Value& a, const Value& b) {
    check_piece(bytes, a, task);
    result.push_back({bytes, {expressions_.combine(a.what, b.what, b.shift - a.shift, step), a.shift}});
  });
  return result;
}

void Machine::average(Content& of, Step step) {
  for (Piece& piece : of) piece.value.what = expressions_.average(piece.value.what, step);
}

void Machine::reduce(const TaskRequest& request, const Access& by) {
  const Rank rank = tasks_[by.task].rank;
  const std::size_t bytes = request.outputs.front().slice.bytes;
  Traffic& traffic = counting(rank);
  Content result;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const PlacedSlice& input = request.inputs[i];
    if (!may_touch(input.rank, input.slice, false, by.task, false)) return;
    if (input.slice.bytes != bytes)
      add(FindingKind::bounds, by.task,
          fmt::format("combines an operand of {} bytes into {}; all operands and outputs have one size",
                      input.slice.bytes, bytes));
    const Content operand = read(input.rank, input.slice, by);
    result = i == 0 ? operand : combine(result, operand, by.task, i == 1 ? Step::begins : Step::goes_on);
    traffic.operands += bytes;
    if (i != 0) traffic.combined += bytes;
    if (input.rank == rank) continue;
    traffic.received += bytes;
    state(tasks_[by.task].stream).path_bytes += bytes;
  }
  if (request.combine.average_over != 0) average(result, Step::goes_on);
  for (const PlacedSlice& output : request.outputs) {
    if (!may_touch(output.rank, output.slice, true, by.task, false)) return;
    write(output.rank, output.slice, result, by);
    if (output.rank != rank) traffic.stored_at_peers += bytes;
  }
}

void Machine::finish_average(const TaskRequest& request, const Access& by) {
  const Rank rank = tasks_[by.task].rank;
  if (request.combine.average_over == 0 || !may_touch(rank, request.local, true, by.task, false)) return;
  Content sum = read(rank, request.local, by);
  average(sum, Step::begins);
  write(rank, request.local, sum, by);
}

/// In its n-th phase every rank waits for the n-th phases of all.
bool Machine::arrive(const TaskRequest& request, TaskId task, Operation* operation) {
  const bool is_own = request.kind == TaskKind::phase;
  const StreamId stream = tasks_[task].stream;
  RankState& rank = ranks_[tasks_[task].rank];
  if (is_own && !plan_.is_mapped_group) {
    add(FindingKind::usage, task, "meets in a phase, which only algorithms with Scope::node may");
    return true;
  }
  if (rank.last_phase.at != 0 && !order_.knows(stream, rank.last_phase))
    add(FindingKind::usage, task, "two streams of a rank take part in phases without order between them");
  rank.last_phase = order_.now(stream);
  Gate& gate = gates_[std::uint64_t{rank.operation} << 32 | rank.phases++];
  if (!is_own && plan_.goes_ahead) return arrive_ahead(gate, {operation, stream, task});
  gate.arrived.push_back({operation, stream, task});
  if (gate.arrived.size() < plan_.ranks) return false;
  std::vector<StreamId> streams;
  std::uint32_t rounds = 0;
  std::uint64_t path_bytes = 0;
  for (const Waiting& one : gate.arrived) {
    streams.push_back(one.stream);
    path_bytes = std::max(path_bytes, state(one.stream).path_bytes);
    rounds = std::max(rounds, state(one.stream).rounds + (is_own || plan_.meets_with_data ? 1 : 0));
  }
  order_.meet(streams);
  for (const Waiting& one : gate.arrived) {
    state(one.stream).rounds = rounds;
    state(one.stream).path_bytes = path_bytes;
    if (one.stream != stream) complete_waiting(one);
  }
  gate.arrived.clear();
  return true;
}

/// A rank arrives, and waits for those alone whom its result depends on.
bool Machine::arrive_ahead(Gate& gate, const Waiting& arriving) {
  gate.arrived.push_back(arriving);
  gate.stamps.push_back(order_.stamp(arriving.stream));
  gate.rounds.push_back(state(arriving.stream).rounds);
  gate.path_bytes.push_back(state(arriving.stream).path_bytes);
  gate.waiting.push_back(arriving);
  bool goes_on = false;
  std::erase_if(gate.waiting, [&](const Waiting& one) {
    if (!go_on_at(gate, one)) return false;
    if (one.stream == arriving.stream)
      goes_on = true;
    else
      complete_waiting(one);
    return true;
  });
  return goes_on;
}

/// Nobody writes a slot of the last operation but one before all have come to the last one.
bool Machine::catch_up(TaskId task, Operation* operation) {
  const StreamId stream = tasks_[task].stream;
  Gate& last = gates_[std::uint64_t{ranks_[tasks_[task].rank].operation - 1} << 32];
  if (go_on_at(last, {operation, stream, task})) return true;
  last.waiting.push_back({operation, stream, task});
  return false;
}

/// If all have come for whom it waits, it comes after them.
bool Machine::go_on_at(const Gate& gate, const Waiting& waiting) {
  const Rank rank = tasks_[waiting.task].rank;
  const bool waits_for_all = tasks_[waiting.task].kind == TaskKind::catch_up;
  const auto awaits = [&](Rank other) { return waits_for_all || plan_.awaits(rank, other); };
  const auto has_come = [&](Rank other) {
    return std::ranges::any_of(gate.arrived,
                               [&](const Waiting& one) { return tasks_[one.task].rank == other; });
  };
  for (Rank other = 0; other < plan_.ranks; ++other)
    if (other != rank && awaits(other) && !has_come(other)) return false;
  StreamState& of = state(waiting.stream);
  std::uint32_t rounds = of.rounds;
  for (std::size_t i = 0; i < gate.arrived.size(); ++i) {
    const Waiting& one = gate.arrived[i];
    const Rank other = tasks_[one.task].rank;
    if (other == rank || !awaits(other)) continue;
    order_.learn(waiting.stream, gate.stamps[i]);
    rounds = std::max(rounds, gate.rounds[i] + (waits_for_all ? 0 : 1));
    of.path_bytes = std::max(of.path_bytes, gate.path_bytes[i]);
  }
  of.rounds = rounds;
  return true;
}

void Machine::complete_waiting(const Waiting& waiting) {
  state(waiting.stream).is_waiting = false;
  if (waiting.operation == nullptr) return;
  if (waiting.operation == starting_)
    starting_ = nullptr;
  else
    resume_later(*waiting.operation, waiting.stream);
}

}  // namespace cohort::check
