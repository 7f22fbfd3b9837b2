// SPDX-License-Identifier: Apache-2.0
// How a Machine speaks of tasks and bytes.
#include <cohort/collectives/machines/check/machine.h>

#include <fmt/format.h>

namespace cohort::check {
namespace {

/// More of a kind follow from the first ones and help nobody.
constexpr std::size_t kMostOfAKind = 6;

}  // namespace

std::string_view to_string(FindingKind kind) noexcept {
  switch (kind) {
    case FindingKind::contribution: return "contribution";
    case FindingKind::conflict: return "conflict";
    case FindingKind::notify: return "notify";
    case FindingKind::deadlock: return "deadlock";
    case FindingKind::bounds: return "bounds";
    case FindingKind::usage: return "usage";
    case FindingKind::reduction: return "reduction";
    case FindingKind::agreement: return "agreement";
    case FindingKind::cost: return "cost";
    case FindingKind::failure: return "failure";
  }
  return "unknown";
}

std::string Machine::who(TaskId id) const {
  const TaskRecord& task = tasks_[id];
  const std::string which =
      task.operation > 1 ? fmt::format(" of operation {} in a row", task.operation) : std::string();
  if (task.kind == TaskKind::begin)
    return fmt::format("rank {}'s caller, before the operation{},", task.rank, which);
  if (task.kind == TaskKind::end) return fmt::format("rank {}'s end{}", task.rank, which);
  return fmt::format("rank {}, {}, task {}{} ({})", task.rank, name_of(task.stream), task.number, which,
                     describe(task));
}

std::string Machine::bytes_of(Rank owner, WindowId window, std::size_t begin, std::size_t end) const {
  return fmt::format("bytes {}..{} of rank {}'s {}", begin, end == begin ? begin : end - 1, owner,
                     to_string(window));
}

void Machine::add(FindingKind kind, TaskId id, const std::string& text) {
  if (is_ending() || found_[static_cast<std::size_t>(kind)]++ >= kMostOfAKind) return;
  const TaskRecord& task = tasks_[id];
  findings_.push_back({kind, task.rank, name_of(task.stream), task.number, task.operation,
                       fmt::format("{} {}", who(id), text)});
}

void Machine::failed(Rank rank, const std::string& what) {
  if (is_ending()) return;
  findings_.push_back({FindingKind::failure,
                       rank,
                       {},
                       0,
                       ranks_[rank].operation,
                       fmt::format("rank {}'s schedule threw: {}", rank, what)});
}

void Machine::refuse(Rank rank, const std::string& what) {
  if (is_ending()) return;
  const StreamId stream = running();
  const std::uint32_t next = state(stream).number + 1;
  findings_.push_back({FindingKind::usage, rank, name_of(stream), next, ranks_[rank].operation,
                       fmt::format("rank {}, {}, before task {}: {}", rank, name_of(stream), next, what)});
}

void Machine::waits_elsewhere(StreamId stream) {
  const Rank rank = rank_of(stream);
  findings_.push_back(
      {FindingKind::deadlock, rank, name_of(stream), state(stream).number, ranks_[rank].operation,
       fmt::format("rank {}, {}, after task {}: waits for ever, for what no machine knows: a timer, an "
                   "Event, a Notify of its own, a task that is no stream; wait for links, x.notify(), "
                   "x.phase() and x.fork_join only",
                   rank, name_of(stream), state(stream).number)});
}

void Machine::check_ends(std::uint32_t operations) {
  if (!findings_.empty()) return;
  for (Rank rank = 0; rank < plan_.ranks; ++rank) {
    if (ranks_[rank].operation == operations && !ranks_[rank].is_inside) continue;
    findings_.push_back({FindingKind::deadlock,
                         rank,
                         {},
                         0,
                         ranks_[rank].operation,
                         fmt::format("rank {} never comes to the end of its schedule", rank)});
  }
}

}  // namespace cohort::check
