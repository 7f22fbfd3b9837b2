// SPDX-License-Identifier: Apache-2.0
// What a Machine's tasks do to memory, and who may do it when.
#include <cohort/collectives/machines/check/machine.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {
namespace {

/// Enough to find who lost a contribution.
constexpr std::size_t kMostLosses = 4096;

}  // namespace

/// Slots alternate with the operations of whoever looks.
const WindowPlace& Machine::place_of(Rank owner, WindowId window) const {
  if (window == WindowId::slot) return plan_.shares[owner].slots[ranks_[rank_of(running())].operation % 2];
  return plan_.shares[owner].windows[static_cast<std::size_t>(window)];
}

Memory& Machine::memory_of(Rank owner, WindowId window) {
  return ranks_[owner].memories[place_of(owner, window).allocation];
}

bool Machine::may_touch(Rank owner, const Slice& slice, bool writes, TaskId task, bool over_link) {
  const Rank rank = tasks_[task].rank;
  const std::string_view window = to_string(slice.window);
  if (owner >= plan_.ranks) {
    add(FindingKind::usage, task, fmt::format("names rank {} of {} ranks", owner, plan_.ranks));
    return false;
  }
  const WindowPlace& place = place_of(owner, slice.window);
  if (slice.offset > place.bytes || slice.bytes > place.bytes - slice.offset) {
    const bool is_unsaid = slice.window == WindowId::scratch && slice.offset >= kUnsaidScratch;
    const char* const hint =
        is_unsaid ? "say in each operation, by use_scratch_from(), where the scratch of a level begins: it "
                    "stays where the operation before had it"
        : slice.window == WindowId::scratch
            ? "let needs() ask for more, or take a smaller slice"
            : "take a slice that lies inside, and cut large messages by largest_piece()";
    add(FindingKind::bounds, task,
        fmt::format("{} bytes {}..{} of rank {}'s {}, which has {} bytes; {}", writes ? "writes" : "reads",
                    slice.offset, slice.offset + std::max<std::size_t>(slice.bytes, 1) - 1, owner, window,
                    place.bytes, hint));
    return false;
  }
  if (slice.window == WindowId::recv && plan_.block_bytes != 0 && !slice.empty() &&
      !keeps_to_block(owner, slice, writes, task))
    return false;
  if (owner == rank) return true;
  const bool is_by_kernel = reaches(tasks_[task].kind) && plan_.host.windows == UserWindows::readable;
  const bool may_reach = plan_.host.maps() || is_by_kernel || plan_.refers[owner];
  const char* objection = nullptr;
  if (slice.window == WindowId::scratch)
    objection = "scratch is local; use ccl_in or ccl_out for what peers reach";
  else if (is_user_window(slice.window) && !may_reach)
    objection =
        "peers reach it only where plan().maps() says so, or by pull() and push() where "
        "plan().reaches() does; pass the bytes through ccl_in or ccl_out";
  else if (writes && over_link && slice.window == WindowId::send)
    objection = "what the caller gives is not written by peers";
  else if (!over_link && !plan_.is_mapped_group)
    objection = "only an algorithm with Scope::node copies from a peer; use a link";
  if (objection == nullptr) return true;
  add(FindingKind::usage, task,
      fmt::format("{} rank {}'s {}: {}", writes ? "writes" : "reads", owner, window, objection));
  return false;
}

/// Where the algorithm says that it does: blocks of recv may lie apart then, where peers do not find them.
bool Machine::keeps_to_block(Rank owner, const Slice& slice, bool writes, TaskId task) {
  const bool is_own = owner == tasks_[task].rank;
  const std::size_t last = slice.offset + slice.bytes - 1;
  if (is_own && slice.offset / plan_.block_bytes == last / plan_.block_bytes) return true;
  add(FindingKind::usage, task,
      fmt::format("{} {}{}, where the algorithm says that it keeps_to_blocks: {}",
                  writes ? "writes" : "reads",
                  bytes_of(owner, slice.window, slice.offset, slice.offset + slice.bytes),
                  is_own ? fmt::format(" at once, parts of blocks of {} bytes", plan_.block_bytes) : "",
                  is_own ? "cut between blocks, or do not say so"
                         : "no peer names any, since they may lie anywhere; do not say so"));
  return false;
}

/// What its owner does not touch again before all have met: a slot, not even at the next arrival; within a
/// node a CCL buffer, in any operation that follows.
bool Machine::is_left_to_peers(WindowId window) const noexcept {
  const bool is_ccl = window == WindowId::ccl_in || window == WindowId::ccl_out;
  return window == WindowId::slot || (is_ccl && plan_.is_mapped_group);
}

/// A peer may touch a rank's memory, but for what is left to it, only while that rank is in the operation,
/// and the rank has to know that it is over before it leaves.
void Machine::note_remote(Rank owner, const Slice& slice, const Access& by) {
  if (owner == tasks_[by.task].rank || slice.empty()) return;
  RankState& rank = ranks_[owner];
  if (is_left_to_peers(slice.window)) {
    holds_in_a_row_ = holds_in_a_row_ && by.when.stream == tasks_[by.task].stream;  // none of links' own
    return;
  }
  // What is done once all have arrived comes after their beginnings.
  holds_in_a_row_ =
      holds_in_a_row_ &&
      (plan_.is_mapped_group || (!rank.begun.empty() && order_.knows(by.when.stream, rank.begun.back())));
  if (rank.is_inside && rank.operation == tasks_[by.task].operation) {
    rank.remote.push_back({by, slice.window});
    return;
  }
  add(FindingKind::conflict, by.task,
      fmt::format(
          "touches {} while rank {} {}: nothing orders the two; let rank {} wait for a signal that is "
          "posted after this task",
          bytes_of(owner, slice.window, slice.offset, slice.offset + slice.bytes), owner,
          rank.operation < tasks_[by.task].operation ? "has not begun the operation" : "leaves the operation",
          owner));
}

Content Machine::read(Rank owner, const Slice& slice, const Access& by) {
  Conflicts conflicts;
  Memory& memory = memory_of(owner, slice.window);
  const std::size_t begin = place_of(owner, slice.window).offset + slice.offset;
  Content content = memory.read(begin, slice.bytes, by, order_, conflicts);
  note_remote(owner, slice, by);
  report(owner, slice.window, by, false, conflicts);
  return content;
}

/// For the words on a result that lacks something: never wrong by itself.
void Machine::note_losses(const Memory& memory, std::size_t begin, const Content& content, TaskId task) {
  std::size_t bytes = 0;
  for (const Piece& piece : content) bytes += piece.bytes;
  const std::uint32_t operation = tasks_[task].operation;
  visit_together(memory.peek(begin, bytes), content,
                 [&](std::size_t size, const Value& before, const Value& after) {
                   const bool is_lost = before.shift == after.shift &&
                                        expressions_.operation_of(before.what) == operation &&
                                        expressions_.operation_of(after.what) == operation &&
                                        !expressions_.includes(after.what, before.what);
                   if (is_lost && losses_.size() < kMostLosses)
                     losses_.push_back(
                         {task, before.what, before.shift, before.shift + static_cast<std::int64_t>(size)});
                 });
}

void Machine::write(Rank owner, const Slice& slice, const Content& content, const Access& by) {
  Conflicts conflicts;
  check_kept(owner, slice, by.task);
  check_repeated(owner, slice, content, by.task);
  if (tasks_[by.task].kind != TaskKind::begin) check_unread(owner, slice, false);
  Memory& memory = memory_of(owner, slice.window);
  const std::size_t begin = place_of(owner, slice.window).offset + slice.offset;
  if (plan_.combines) note_losses(memory, begin, content, by.task);
  memory.write(begin, content, by, order_, conflicts);
  note_remote(owner, slice, by);
  report(owner, slice.window, by, true, conflicts);
}

/// Whoever has to be first, says so: by a signal between ranks, by a join or a Notify within one.
std::string Machine::advice(const Conflict& conflict, const TaskRecord& earlier, const TaskRecord& later,
                            bool later_writes) const {
  if (later.rank == earlier.rank)
    return "join the streams in between, or order them by a Notify, or give them different bytes";
  if (later.kind == TaskKind::begin || later.kind == TaskKind::end)
    return fmt::format("let rank {} wait, before it leaves, for a signal that rank {} posts after the {}",
                       later.rank, earlier.rank, short_name(earlier.kind));
  if (earlier.kind == TaskKind::begin || earlier.kind == TaskKind::end)
    return fmt::format("let rank {} wait, before the {}, for a signal that rank {} posts when it has begun",
                       later.rank, short_name(later.kind), earlier.rank);
  const bool reads_leftovers =
      !conflict.earlier_writes && later_writes && expressions_.leftover_in(conflict.held.what).has_value();
  const bool is_turned =
      earlier.operation != later.operation ? earlier.operation > later.operation : reads_leftovers;
  const TaskRecord& first = is_turned ? later : earlier;
  const TaskRecord& second = is_turned ? earlier : later;
  if (plan_.is_mapped_group)
    return fmt::format("let all ranks meet in a phase() after the {} of rank {} and before the {} of rank {}",
                       short_name(first.kind), first.rank, short_name(second.kind), second.rank);
  const bool gives =
      is_turned ? later_writes && !conflict.earlier_writes : conflict.earlier_writes && !later_writes;
  return fmt::format("let rank {} post {} after the {} and let rank {} wait for it before the {}", first.rank,
                     gives ? "Ack" : "DataSignal", short_name(first.kind), second.rank,
                     short_name(second.kind));
}

void Machine::report(Rank owner, WindowId window, const Access& by, bool writes, const Conflicts& conflicts) {
  if (conflicts.empty()) return;
  const Conflict& first = conflicts.front();
  std::size_t end = first.end;
  for (const Conflict& next : conflicts)
    if (next.earlier == first.earlier && next.begin == end) end = next.end;
  const std::size_t base = place_of(owner, window).offset;
  const TaskRecord& earlier = tasks_[first.earlier];
  add(FindingKind::conflict, by.task,
      fmt::format("{} {} while {} {} them: nothing orders the two; {}", writes ? "writes" : "reads",
                  bytes_of(owner, window, first.begin - base, end - base), who(first.earlier),
                  first.earlier_writes ? "writes" : "reads",
                  advice(first, earlier, tasks_[by.task], writes)));
}

}  // namespace cohort::check
