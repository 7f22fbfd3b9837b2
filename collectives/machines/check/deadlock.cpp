// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/deadlock.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {
namespace {

/// More waits for the same reason say nothing new.
constexpr std::size_t kMostHopeless = 3;
constexpr std::size_t kLongestCircle = 6;

bool meets_all(TaskKind kind) {
  return kind == TaskKind::phase || kind == TaskKind::begin || kind == TaskKind::catch_up;
}

std::string_view missing_half(TaskKind kind) {
  switch (kind) {
    case TaskKind::wait: return "post it";
    case TaskKind::send: return "receive it";
    case TaskKind::recv:
    case TaskKind::recv_reduce: return "send";
    default: return "come to it";
  }
}

}  // namespace

Deadlock::Deadlock(Machine& machine) : machine_(machine) {
  for (StreamId stream = 0; stream < machine.streams(); ++stream) {
    const Machine::StreamState& state = machine.state(stream);
    if (state.is_waiting)
      blocked_.push_back(state.task);
    else if (machine.is_at_work(stream))
      elsewhere_.push_back(stream);
  }
  const auto by_place = [&](TaskId a, TaskId b) {
    return machine.tasks_[a].stream < machine.tasks_[b].stream;
  };
  std::sort(blocked_.begin(), blocked_.end(), by_place);
}

bool Deadlock::has_left(Rank rank, std::uint32_t operation) const {
  const Machine::RankState& state = machine_.ranks_[rank];
  return state.operation > operation || (state.operation == operation && !state.is_inside);
}

Rank Deadlock::awaited(const TaskRecord& task) const {
  if (task.kind == TaskKind::notify_wait) return task.rank;
  if (!meets_all(task.kind)) return task.peer;
  const Machine::RankState& mine = machine_.ranks_[task.rank];
  Rank behind = task.rank;
  for (Rank rank = 0; rank < machine_.plan_.ranks; ++rank) {
    const Machine::RankState& theirs = machine_.ranks_[rank];
    if (has_left(rank, task.operation)) return rank;
    if (theirs.operation < task.operation || theirs.phases < mine.phases) behind = rank;
  }
  return behind;
}

const Message* Deadlock::obstacle(const TaskRecord& task) const {
  const std::size_t ranks = machine_.plan_.ranks;
  const bool may_stand_behind =
      task.kind == TaskKind::wait || task.kind == TaskKind::get || task.kind == TaskKind::get_reduce;
  if (!may_stand_behind || machine_.channels_.empty()) return nullptr;
  for (Lane lane = 0; lane < kMostLanes; ++lane) {
    const auto& link = machine_.channels_[(task.peer * ranks + task.rank) * kMostLanes + lane];
    if (!link || link->on_its_way.empty()) continue;
    const Message& first = link->on_its_way.front();
    const bool is_awaited =
        std::any_of(link->on_its_way.begin(), link->on_its_way.end(), [&](const Message& m) {
          return task.kind == TaskKind::wait ? m.kind == MessageKind::signal && m.signal == task.signal
                                             : m.kind == MessageKind::reply;
        });
    if (is_awaited && first.kind == MessageKind::bytes) return &first;
  }
  return nullptr;
}

bool Deadlock::is_hopeless(TaskId id) const {
  const TaskRecord& task = machine_.tasks_[id];
  const Rank other = awaited(task);
  if (task.kind != TaskKind::notify_wait) return has_left(other, task.operation);
  return std::none_of(blocked_.begin(), blocked_.end(), [&](TaskId beside) {
    return beside != id && machine_.tasks_[beside].rank == task.rank &&
           machine_.tasks_[beside].kind != TaskKind::notify_wait;
  });
}

std::string Deadlock::why_hopeless(TaskId id) const {
  const TaskRecord& task = machine_.tasks_[id];
  if (task.kind == TaskKind::notify_wait)
    return "waits for ever: no stream of this rank posts the Notify any more; let one post for each wait";
  const std::string_view half = missing_half(task.kind);
  const Rank other = awaited(task);
  return fmt::format(
      "waits for ever: rank {} leaves the operation and does not {}; let rank {} {}, or take this "
      "task away",
      other, half, other, half);
}

const TaskId* Deadlock::blocked_of(Rank rank) const {
  const auto found = std::find_if(blocked_.begin(), blocked_.end(),
                                  [&](TaskId id) { return machine_.tasks_[id].rank == rank; });
  return found == blocked_.end() ? nullptr : &*found;
}

void Deadlock::explain_circle() {
  std::vector<TaskId> path;
  TaskId at = blocked_.front();
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    const TaskRecord& task = machine_.tasks_[at];
    const TaskId* next = blocked_of(awaited(task));
    if (task.kind == TaskKind::notify_wait)
      next = &*std::find_if(blocked_.begin(), blocked_.end(), [&](TaskId id) {
        return machine_.tasks_[id].rank == task.rank && machine_.tasks_[id].kind != TaskKind::notify_wait;
      });
    if (next == nullptr) break;
    at = *next;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  if (path.empty()) path.push_back(at);
  const auto lowest = std::min_element(path.begin(), path.end(), [&](TaskId a, TaskId b) {
    return machine_.tasks_[a].stream < machine_.tasks_[b].stream;
  });
  std::rotate(path.begin(), lowest, path.end());
  std::string text = "waits for ever, in a circle: ";
  for (std::size_t i = 1; i < path.size() && i < kLongestCircle; ++i)
    text += fmt::format("for {}, which waits ", machine_.who(path[i]));
  if (path.size() > kLongestCircle)
    text += fmt::format("for {} more, the last of which waits ", path.size() - kLongestCircle);
  text += path.size() == 1 ? "for what it keeps from coming itself" : "for it";
  if (const Message* const before = obstacle(machine_.tasks_[path.front()]))
    text += fmt::format("; what it waits for stands behind {}, so receive that first",
                        machine_.who(before->sender.task));
  else if (machine_.tasks_[path.front()].kind == TaskKind::wait)
    text += "; a post among them is missing, or comes only after the wait";
  else
    text += "; let one of them do its other half first, or both halves at once as exchange() does";
  machine_.add(FindingKind::deadlock, path.front(), text);
}

void Deadlock::explain() {
  for (const StreamId stream : elsewhere_) machine_.waits_elsewhere(stream);
  if (blocked_.empty() || !elsewhere_.empty()) return;
  std::size_t hopeless = 0;
  for (const TaskId id : blocked_) {
    if (!is_hopeless(id) || hopeless++ >= kMostHopeless) continue;
    machine_.add(FindingKind::deadlock, id, why_hopeless(id));
  }
  if (hopeless == 0) explain_circle();
}

}  // namespace cohort::check
