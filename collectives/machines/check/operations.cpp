// SPDX-License-Identifier: Apache-2.0
// The edges of an operation on a Machine: what the caller gives, what it gets, and what may not be left
// behind.
#include <cohort/collectives/machines/check/machine.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {

void Machine::begin() {
  const Rank rank = rank_of(running());
  RankState& of = ranks_[rank];
  ++of.operation;
  of.is_inside = true;
  of.has_empty_messages = false;
  of.phases = 0;
  of.remote.clear();
  const TaskId task = admit({.kind = TaskKind::begin});
  of.begun.push_back(order_.now(running()));
  fill_windows(rank, task);
  for (std::size_t i = 0; i < of.incoming.size(); ++i) pump(*of.incoming[i]);
}

/// The caller fills its buffers: with what it gives, and for the rest with what nobody may rely on.
void Machine::fill_windows(Rank rank, TaskId task) {
  const RankPlan& share = plan_.shares[rank];
  for (const WindowId window : {WindowId::send, WindowId::recv}) {
    const WindowPlace& place = place_of(rank, window);
    const Memory& memory = memory_of(rank, window);
    if (place.offset != 0 || place.bytes != memory.size_bytes()) continue;  // inside of the other one
    write(rank, {window, 0, place.bytes}, {{place.bytes, {expressions_.leftover(window), 0}}}, now(task));
  }
  const ExpressionId mine = expressions_.contribution(ranks_[rank].operation, rank);
  for (const Stretch& give : share.gives)
    write(rank, give.where, {{give.where.bytes, {mine, static_cast<std::int64_t>(give.from)}}}, now(task));
}

void Machine::end() {
  if (is_ending()) return;
  const Rank rank = rank_of(running());
  const TaskId task = admit({.kind = TaskKind::end});
  check_left_behind(rank, task);
  check_waste(rank);
  check_result(rank, task);
  RankState& of = ranks_[rank];
  of.is_inside = false;
  if (of.operation != 1) return;  // costs are those of one operation
  rounds_ = std::max(rounds_, state(running()).rounds);
  path_bytes_ = std::max(path_bytes_, state(running()).path_bytes);
}

/// What is left to peers they may still read: until the last rank leaves.
void Machine::check_waste(Rank leaving) {
  constexpr WindowId kWindows[] = {WindowId::ccl_in, WindowId::ccl_out, WindowId::scratch};
  const auto check = [&](Rank rank, bool is_left) {
    for (const WindowId window : kWindows)
      if (is_left_to_peers(window) == is_left)
        check_unread(rank, {window, 0, place_of(rank, window).bytes}, true);
  };
  check(leaving, false);
  if (plan_.goes_ahead) return;  // nobody knows when all have
  if (++leavers_ < plan_.ranks) return;
  leavers_ = 0;
  for (Rank rank = 0; rank < plan_.ranks; ++rank) check(rank, true);
}

void Machine::check_left_behind(Rank rank, TaskId task) {
  const StreamId main = running();
  RankState& of = ranks_[rank];
  for (Channel* const link : of.incoming) {
    for (SignalEnd& end : link->signals) {
      for (const Message& message : end.untaken) lost(message);
      end.untaken.clear();
    }
  }
  for (const RemoteAccess& remote : of.remote) {
    if (order_.knows(main, remote.access.when)) continue;
    add(FindingKind::conflict, remote.access.task,
        fmt::format(
            "touches rank {}'s {} while rank {} leaves the operation: nothing orders the two; let rank "
            "{} wait for a signal that is posted after this task",
            rank, to_string(remote.window), rank, rank));
    break;
  }
  for (auto entry = notifies_.begin(); entry != notifies_.end();) {
    const Line<Message>& posts = entry->second.posts;
    const bool is_own = !posts.empty() && rank_of(posts.front().stamp.self.stream) == rank;
    if (is_own)
      add(FindingKind::notify, task,
          fmt::format("comes with {} untaken post{} of a Notify of {}; let a stream wait for each",
                      posts.size(), posts.size() == 1 ? "" : "s", name_of(posts.front().stamp.self.stream)));
    entry = is_own ? notifies_.erase(entry) : std::next(entry);
  }
  for (Rank other = 0; other < plan_.ranks; ++other) {
    const RankState& theirs = ranks_[other];
    const bool has_begun = theirs.operation >= of.operation;
    const bool is_needed = other != rank && needs(rank, other);
    const bool is_heard = !is_needed || (has_begun && order_.knows(main, theirs.begun[of.operation - 1]));
    if (is_heard || plan_.is_mapped_group || of.has_empty_messages) continue;
    add(FindingKind::agreement, task,
        fmt::format(
            "comes before this rank has heard of rank {}, whom its result depends on, directly or through "
            "others: a rank that runs something else would not be noticed; let it wait for an Ack of rank {}",
            other, other));
    break;
  }
}

/// By the operator, but for those of whose input nothing is in the result though it might be.
bool Machine::needs(Rank rank, Rank other) const {
  if (!plan_.op.is_one_way()) return true;
  return std::ranges::any_of(plan_.shares[rank].gets, [other](const Stretch& stretch) {
    const Rank end = stretch.is_combined ? stretch.end : stretch.of + 1;
    return !stretch.where.empty() && stretch.of <= other && other < end;
  });
}

void Machine::check_result(Rank rank, TaskId end) {
  for (const Stretch& stretch : plan_.shares[rank].gets) check_stretch(rank, stretch, end);
  if (plan_.has_result_everywhere) check_same_everywhere(rank);
}

void Machine::check_stretch(Rank rank, const Stretch& stretch, TaskId end) {
  const std::size_t base = place_of(rank, stretch.where.window).offset;
  const Memory& memory = memory_of(rank, stretch.where.window);
  const std::uint32_t operation = ranks_[rank].operation;
  const ExpressionId single = expressions_.contribution(operation, stretch.of);
  std::size_t at = 0;
  ExpressionId last = 0;
  for (const Piece& piece : memory.peek(base + stretch.where.offset, stretch.where.bytes)) {
    const auto shift = static_cast<std::int64_t>(stretch.from + at);
    const bool is_right =
        piece.value.shift == shift &&
        (stretch.is_combined ? expressions_.is_whole(piece.value.what, operation, {stretch.of, stretch.end},
                                                     plan_.is_averaged)
                             : piece.value.what == single);
    if (!is_right) return wrong_value(end, stretch, at, piece);
    if (stretch.is_combined) note_order(end, stretch, at, piece.value.what);
    if (at == 0 || piece.value.what != last) {  // wherever reads and writes have cut it
      const std::uint64_t place = mixed(mixed(rank, operation), stretch.where.offset + at);
      fingerprint_ += mixed(place, expressions_.fingerprint(piece.value.what));
    }
    last = piece.value.what;
    at += piece.bytes;
  }
}

/// In which order it was combined, and whether that is what the algorithm says of itself.
void Machine::note_order(TaskId end, const Stretch& stretch, std::size_t at, ExpressionId what) {
  const Rank rank = tasks_[end].rank;
  const bool is_in_rank_order = expressions_.is_in_rank_order(what);
  const bool is_at_once = expressions_.is_at_once(what);
  if (is_in_rank_order_ && !is_in_rank_order)
    example_of_order_ = fmt::format("bytes {}.. of {} on rank {}: {}", stretch.where.offset + at,
                                    to_string(stretch.where.window), rank, expressions_.text(what));
  is_in_rank_order_ = is_in_rank_order_ && is_in_rank_order;
  is_at_once_ = is_at_once_ && is_at_once;
  const bool is_kept = (plan_.order == ReductionOrder::fixed || is_in_rank_order) &&
                       (plan_.order != ReductionOrder::by_rank_at_once || is_at_once);
  if (is_kept || breaks_order_) return;
  breaks_order_ = true;  // once: it is one mistake
  const std::size_t place = place_of(rank, stretch.where.window).offset + stretch.where.offset + at;
  add(FindingKind::reduction, memory_of(rank, stretch.where.window).writer_at(place).task,
      fmt::format("leaves {} as {}{}, where the algorithm says that it combines {}: combine so, or say of it "
                  "what it does",
                  bytes_of(rank, stretch.where.window, stretch.where.offset + at,
                           stretch.where.offset + stretch.where.bytes),
                  expressions_.text(what), is_in_rank_order && !is_at_once ? " in several steps" : "",
                  to_string(plan_.order)));
}

void Machine::wrong_value(TaskId end, const Stretch& stretch, std::size_t at, const Piece& piece) {
  const Rank rank = tasks_[end].rank;
  const Value& value = piece.value;
  const std::size_t begin = stretch.where.offset + at;
  const std::size_t place = place_of(rank, stretch.where.window).offset + begin;
  const Access writer = memory_of(rank, stretch.where.window).writer_at(place);
  const std::uint32_t operation = ranks_[rank].operation;
  Objection objection;
  const auto at_contribution = static_cast<std::int64_t>(stretch.from + at);
  const std::int64_t moved = value.shift - at_contribution;
  if (stretch.is_combined) {
    const RankRange of{stretch.of, stretch.end};
    objection = expressions_.objection(value.what, operation, of, plan_.is_averaged);
    const Loss* const loss = objection.culprit ? nullptr : loss_of(value, at_contribution, of);
    if (loss != nullptr) objection.culprit = loss->task;
  } else if (value.what != expressions_.contribution(operation, stretch.of)) {
    const auto leftover = expressions_.leftover_in(value.what);
    const bool is_of_another = expressions_.operation_of(value.what) != operation;
    const std::string held = leftover ? fmt::format("leftovers of {}", to_string(*leftover))
                             : is_of_another
                                 ? std::string("data of another operation")
                                 : fmt::format("the contribution of rank {}", expressions_.text(value.what));
    objection.text = fmt::format("holds {} in place of rank {}'s contribution", held, stretch.of);
  }
  if (objection.text.empty())
    objection.text = fmt::format("holds the right contribution, but from a place {} bytes {}",
                                 moved < 0 ? -moved : moved, moved < 0 ? "before" : "behind");
  if (objection.culprit && *objection.culprit != writer.task)
    objection.text += fmt::format("; {} wrote it last", who(writer.task));
  const std::string result = bytes_of(rank, stretch.where.window, begin, begin + piece.bytes);
  if (tasks_[writer.task].kind == TaskKind::begin)
    add(FindingKind::contribution, end,
        fmt::format("comes with a wrong result: {}, where no task wrote, {}", result, objection.text));
  else
    add(FindingKind::contribution, objection.culprit.value_or(writer.task),
        fmt::format("{} a wrong result: {} {}", objection.culprit ? "leads to" : "leaves", result,
                    objection.text));
}

const Machine::Loss* Machine::loss_of(const Value& value, std::int64_t at, RankRange of) const {
  const Rank missing = expressions_.first_missing(value.what, of);
  if (missing == of.end) return nullptr;
  for (const Loss& loss : losses_)
    if (loss.begin <= at && at < loss.end && expressions_.has(loss.lost, missing)) return &loss;
  return nullptr;
}

/// All ranks hold the same expression everywhere, and so the same bits.
void Machine::check_same_everywhere(Rank rank) {
  const std::uint32_t operation = ranks_[rank].operation;
  const Stretch& stretch = plan_.shares[rank].gets.front();
  const std::size_t place = place_of(rank, stretch.where.window).offset + stretch.where.offset;
  const Memory& memory = memory_of(rank, stretch.where.window);
  Content mine = memory.peek(place, stretch.where.bytes);
  if (results_.size() < operation) results_.resize(operation);
  Result& first = results_[operation - 1];
  if (!first.is_known) {
    first = {true, rank, std::move(mine)};
    return;
  }
  std::size_t at = 0;
  bool differs = false;
  visit_together(first.content, mine, [&](std::size_t bytes, const Value& a, const Value& b) {
    if (!differs && !(a == b)) {
      differs = true;
      add(FindingKind::reduction, memory.writer_at(place + at).task,
          fmt::format("leaves {} as {} where rank {} has {}: the {} of combination differ, and so may the "
                      "bits; combine in one order on all ranks, as in that of ranks",
                      bytes_of(rank, stretch.where.window, stretch.where.offset + at,
                               stretch.where.offset + at + bytes),
                      expressions_.text(b.what), first.rank, expressions_.text(a.what),
                      expressions_.text(a.what) == expressions_.text(b.what) ? "steps" : "orders"));
    }
    at += bytes;
  });
}

}  // namespace cohort::check
