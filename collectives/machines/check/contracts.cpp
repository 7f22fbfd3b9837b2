// SPDX-License-Identifier: Apache-2.0
// What the contracts of Exec and Link ask of a Machine's task by itself, whenever it comes.
#include <cohort/collectives/machines/check/machine.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {
namespace {

bool combines(TaskKind kind) {
  return kind == TaskKind::reduce || kind == TaskKind::recv_reduce || kind == TaskKind::get_reduce ||
         kind == TaskKind::finish_average;
}

/// The combination itself; avg is a sum that is divided once, at the end.
ReduceOp folded(ReduceOp op) { return op == ReduceOp::avg ? ReduceOp::sum : op; }

/// On memory, by the rank itself.
bool is_step(TaskKind kind) { return kind == TaskKind::copy || reaches(kind) || kind == TaskKind::reduce; }

std::string text_of(const Slice& slice) {
  return fmt::format("{}[{}, +{}]", to_string(slice.window), slice.offset, slice.bytes);
}

}  // namespace

void Machine::check_contracts(const TaskRequest& request, TaskId task) {
  if (combines(request.kind)) {
    check_combine(request, task);
    check_elements(request, task);
  }
  if (reaches(request.kind)) check_reached(request, task);
  if (is_step(request.kind)) check_overlap(request, task);
}

void Machine::check_reached(const TaskRequest& request, TaskId task) {
  const bool pulls = request.kind == TaskKind::pull;
  const WindowId window = (pulls ? request.inputs : request.outputs).front().slice.window;
  if (is_user_window(window)) return;
  add(FindingKind::usage, task,
      fmt::format("{} {}: {}() reaches what callers give and get; {}() is for CCL buffers, which ranks map",
                  pulls ? "pulls from" : "pushes to", to_string(window), pulls ? "pull" : "push",
                  pulls ? "copy_from" : "copy_to"));
}

void Machine::check_combine(const TaskRequest& request, TaskId task) {
  const Combine& of = request.combine;
  const Combine& asked = plan_.combine;
  const Rank rank = tasks_[task].rank;
  const Rank taker = request.outputs.empty() ? rank : request.outputs.front().rank;
  const Rank contributors = plan_.has_parts ? plan_.shares[taker].average_over : plan_.ranks;
  std::string objection;
  if (of.type != asked.type)
    objection = fmt::format("combines elements as {} where the call has {}", to_string(of.type),
                            to_string(asked.type));
  else if (folded(of.op) != folded(asked.op))
    objection =
        fmt::format("combines by {} where the call asks for {}", to_string(of.op), to_string(asked.op));
  else if (of.average_over != 0 && of.average_over != contributors)
    objection = fmt::format("divides by {} where {} ranks contribute", of.average_over, contributors);
  if (objection.empty()) return;
  add(FindingKind::reduction, task, fmt::format("{}; hand on the operator's own `combine`", objection));
}

/// Kernels take whole elements, at places where elements may lie.
void Machine::check_elements(const TaskRequest& request, TaskId task) {
  const std::size_t element = size_bytes(plan_.combine.type);
  const auto is_whole = [&](const Slice& slice) {
    return slice.offset % element == 0 && slice.bytes % element == 0;
  };
  const Slice* broken = is_whole(request.local) ? nullptr : &request.local;
  if (request.kind == TaskKind::get_reduce && !is_whole(request.remote)) broken = &request.remote;
  for (const auto& places : {request.outputs, request.inputs})
    for (const PlacedSlice& place : places)
      if (!is_whole(place.slice)) broken = &place.slice;
  if (broken == nullptr) return;
  add(FindingKind::bounds, task,
      fmt::format("combines {}, which is no whole elements of {} bytes; cut between elements",
                  text_of(*broken), element));
}

/// Nothing where the slice lies outside: may_touch() tells.
std::optional<Machine::Interval> Machine::interval_of(const PlacedSlice& of) const {
  if (of.rank >= plan_.ranks || of.slice.empty()) return std::nullopt;
  const WindowPlace& place = place_of(of.rank, of.slice.window);
  if (of.slice.offset > place.bytes || of.slice.bytes > place.bytes - of.slice.offset) return std::nullopt;
  const std::size_t begin = place.offset + of.slice.offset;
  return Interval{of.rank, place.allocation, begin, begin + of.slice.bytes};
}

/// A copy goes either way; an output of a reduction is the very memory of an input, or none of it.
void Machine::check_overlap(const TaskRequest& request, TaskId task) {
  const auto refuse = [&](std::string_view what) {
    add(FindingKind::usage, task,
        fmt::format("{}; go through other memory, or name the very same bytes", what));
  };
  std::vector<Interval> outputs;
  for (const PlacedSlice& output : request.outputs)
    if (const auto interval = interval_of(output)) outputs.push_back(*interval);
  std::sort(outputs.begin(), outputs.end());
  for (std::size_t i = 1; i < outputs.size(); ++i)
    if (outputs[i - 1].meets(outputs[i])) return refuse("stores twice to the same bytes");
  for (const PlacedSlice& input : request.inputs) {
    const auto read = interval_of(input);
    if (!read) continue;
    const auto behind = std::upper_bound(outputs.begin(), outputs.end(), *read);
    const bool meets_next = behind != outputs.end() && behind->meets(*read);
    const bool meets_last = behind != outputs.begin() && std::prev(behind)->meets(*read);
    const bool is_same = meets_last && *std::prev(behind) == *read && !meets_next;
    if ((meets_next || meets_last) && !is_same) return refuse("reads and writes bytes that overlap in part");
  }
}

/// Parts of elements are combined with what is no part of them, which expressions over bytes do not show.
void Machine::check_piece(std::size_t bytes, const Value& value, TaskId task) {
  const auto element = static_cast<std::int64_t>(size_bytes(plan_.combine.type));
  const bool is_whole = value.shift % element == 0 && static_cast<std::int64_t>(bytes) % element == 0;
  if (is_whole || expressions_.operation_of(value.what) == 0) return;
  add(FindingKind::bounds, task,
      fmt::format("combines parts of elements of {} bytes, which other tasks cut; cut between elements",
                  element));
}

/// A step that writes what is there already, by another task, costs for nothing.
void Machine::check_repeated(Rank owner, const Slice& slice, const Content& content, TaskId task) {
  if (!plan_.finds_waste || slice.empty() || !is_step(tasks_[task].kind)) return;
  const Memory& memory = memory_of(owner, slice.window);
  const std::size_t begin = place_of(owner, slice.window).offset + slice.offset;
  const TaskId before = memory.writer_at(begin).task;
  const TaskRecord& earlier = tasks_[before];
  if (earlier.operation != tasks_[task].operation || earlier.kind == TaskKind::begin) return;
  bool differs = false;
  visit_together(memory.peek(begin, slice.bytes), content,
                 [&](std::size_t, const Value& held, const Value& fresh) { differs |= held != fresh; });
  if (differs) return;
  add(FindingKind::cost, task,
      fmt::format("writes what {} has written there already; take one of them away", who(before)));
}

/// A step whose bytes nobody reads before they are written anew, or before the operation is over.
void Machine::check_unread(Rank owner, const Slice& slice, bool at_end) {
  if (!plan_.finds_waste || is_ending()) return;
  const std::size_t base = place_of(owner, slice.window).offset;
  const std::uint32_t operation = ranks_[rank_of(running())].operation;
  std::optional<TaskId> first;
  memory_of(owner, slice.window)
      .visit_unread(base + slice.offset, slice.bytes, [&](std::size_t, std::size_t, const Access& writer) {
        const bool is_of_now = writer.when.at != 0 && tasks_[writer.task].operation == operation;
        if (!first && is_of_now && is_step(tasks_[writer.task].kind)) first = writer.task;
      });
  if (!first) return;
  add(FindingKind::cost, *first,
      fmt::format("writes bytes of rank {}'s {} that nobody reads {}; take it away, or write less", owner,
                  to_string(slice.window), at_end ? "in this operation" : "before they are written again"));
}

/// What the caller gives and has again afterwards is read by others meanwhile, or may not be writable at all.
void Machine::check_kept(Rank owner, const Slice& slice, TaskId task) {
  if (tasks_[task].kind == TaskKind::begin) return;
  const auto written = interval_of({owner, slice});
  if (!written) return;
  for (const Kept& kept : plan_.shares[owner].kept) {
    if (!written->meets({owner, kept.allocation, kept.begin, kept.end})) continue;
    add(FindingKind::usage, task,
        fmt::format("writes {}, which the caller gives and keeps: it is never written, not even to restore "
                    "it; use recv, ccl_in, ccl_out or scratch",
                    bytes_of(owner, slice.window, slice.offset, slice.offset + slice.bytes)));
    return;
  }
}

}  // namespace cohort::check
