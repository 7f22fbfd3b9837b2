// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/task_record.h>

#include <fmt/format.h>

namespace cohort::check {

TaskRecord record(const TaskRequest& request, Rank rank) {
  TaskRecord task;
  task.kind = request.kind;
  task.signal = request.signal;
  task.rank = rank;
  task.peer = request.peer;
  task.local = request.local;
  task.remote = request.remote;
  if (request.outputs.empty()) return task;
  task.local = request.outputs.front().slice;
  task.remote = request.inputs.front().slice;
  task.peer = (request.kind == TaskKind::push ? request.outputs : request.inputs).front().rank;
  task.operands = static_cast<std::uint32_t>(request.inputs.size());
  return task;
}

std::string_view short_name(TaskKind kind) noexcept {
  switch (kind) {
    case TaskKind::begin: return "start of the operation";
    case TaskKind::catch_up: return "wait for all to come to the last operation";
    case TaskKind::copy: return "copy";
    case TaskKind::pull: return "pull";
    case TaskKind::push: return "push";
    case TaskKind::reduce: return "reduce";
    case TaskKind::finish_average: return "finish_average";
    case TaskKind::phase: return "phase";
    case TaskKind::post: return "post";
    case TaskKind::wait: return "wait";
    case TaskKind::put: return "put";
    case TaskKind::get: return "get";
    case TaskKind::get_reduce: return "get_reduce";
    case TaskKind::send: return "send";
    case TaskKind::recv: return "recv";
    case TaskKind::recv_reduce: return "recv_reduce";
    case TaskKind::notify_post: return "post of a Notify";
    case TaskKind::notify_wait: return "wait for a Notify";
    case TaskKind::end: return "end of the operation";
  }
  return "task";
}

namespace {

std::string place(const Slice& slice) {
  return fmt::format("{}[{}, +{}]", to_string(slice.window), slice.offset, slice.bytes);
}

}  // namespace

std::string describe(const TaskRecord& task) {
  const std::string_view name = short_name(task.kind);
  switch (task.kind) {
    case TaskKind::copy:
    case TaskKind::pull:
      if (task.peer == task.rank) return fmt::format("copy {} to {}", place(task.remote), place(task.local));
      return fmt::format("{} rank {}'s {} to {}", name, task.peer, place(task.remote), place(task.local));
    case TaskKind::push:
      return fmt::format("push {} to rank {}'s {}", place(task.remote), task.peer, place(task.local));
    case TaskKind::reduce: return fmt::format("reduce {} operands to {}", task.operands, place(task.local));
    case TaskKind::finish_average: return fmt::format("finish_average of {}", place(task.local));
    case TaskKind::post: return fmt::format("post {} to rank {}", to_string(task.signal), task.peer);
    case TaskKind::wait: return fmt::format("wait for {} of rank {}", to_string(task.signal), task.peer);
    case TaskKind::put:
      return fmt::format("put {} to rank {}'s {}, then {}", place(task.local), task.peer, place(task.remote),
                         to_string(task.signal));
    case TaskKind::get:
    case TaskKind::get_reduce:
      return fmt::format("{} rank {}'s {} to {}", name, task.peer, place(task.remote), place(task.local));
    case TaskKind::send: return fmt::format("send {} to rank {}", place(task.local), task.peer);
    case TaskKind::recv:
    case TaskKind::recv_reduce: return fmt::format("{} {} from rank {}", name, place(task.local), task.peer);
    default: return std::string(name);
  }
}

}  // namespace cohort::check
