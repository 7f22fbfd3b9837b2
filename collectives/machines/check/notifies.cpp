// SPDX-License-Identifier: Apache-2.0
// The notifies between the streams of a rank on a Machine.
#include <cohort/collectives/machines/check/machine.h>

#include <fmt/format.h>

namespace cohort::check {

StreamWatcher::NotifyId Machine::makes_notify(std::uint32_t limit) {
  notifies_[++last_notify_].limit = limit;
  return last_notify_;
}

/// With posts on it, it is kept until its rank's end tells of them.
void Machine::notify_is_gone(NotifyId id) noexcept {
  const auto entry = notifies_.find(id);
  if (entry == notifies_.end()) return;
  entry->second.waiting.reset();
  if (entry->second.posts.empty()) notifies_.erase(entry);
}

void Machine::posts(NotifyId id) noexcept {
  (void)carry_out(rank_of(running()), {.kind = TaskKind::notify_post, .notify = id}, nullptr);
}

void Machine::post_notify(NotifyId id, TaskId task) {
  const StreamId stream = running();
  NotifyState& notify = notifies_[id];
  if (notify.last_post.at != 0 && !order_.knows(stream, notify.last_post))
    add(FindingKind::usage, task,
        "two streams post one Notify without order between them; give each its own");
  notify.last_post = order_.now(stream);
  const std::uint32_t before = notify.posted++;
  const std::uint32_t limit = notify.limit;
  const bool may_overflow = before >= limit && (notify.takes.size() <= before - limit ||
                                                !order_.knows(stream, notify.takes[before - limit]));
  if (may_overflow)
    add(FindingKind::notify, task,
        fmt::format("may come while the Notify holds {} untaken post{}, its limit; wait for the other stream "
                    "first, or give it a higher limit",
                    limit, limit == 1 ? "" : "s"));
  Message message;
  message.stamp = order_.stamp(stream);
  message.rounds = state(stream).rounds;
  message.path_bytes = state(stream).path_bytes;
  notify.posts.push_back(std::move(message));
  if (!notify.waiting) return;
  const Waiting waiting = *std::exchange(notify.waiting, std::nullopt);
  take_post(notify, waiting);
  complete_waiting(waiting);
}

bool Machine::takes_post(NotifyId id) {
  return carry_out(rank_of(running()), {.kind = TaskKind::notify_wait, .notify = id}, nullptr);
}

bool Machine::wait_for_notify(NotifyId id, TaskId task, Operation* operation) {
  NotifyState& notify = notifies_[id];
  const Waiting waiting{operation, running(), task};
  if (notify.waiting) {
    add(FindingKind::usage, task,
        "waits for a Notify for which another stream waits already; give each its own");
    give_up();
    return true;
  }
  if (!notify.posts.empty()) {
    take_post(notify, waiting);
    return true;
  }
  notify.waiting = waiting;
  state(running()).notify = id;
  return false;
}

/// takes_post() has left it waiting, without knowing on what.
void Machine::awaits_post(NotifyId, Operation& wait) noexcept {
  StreamState& of = state(running());
  of.is_waiting = false;
  const Rank rank = rank_of(running());
  if (is_ending() || !is_of_stream(rank, {.kind = TaskKind::notify_wait}, &wait)) return;
  of.is_waiting = true;
  notifies_[of.notify].waiting->operation = &wait;
}

void Machine::take_post(NotifyState& notify, const Waiting& waiting) {
  if (!notify.takes.empty() && !order_.knows(waiting.stream, notify.takes.back()))
    add(FindingKind::usage, waiting.task,
        "two streams wait for one Notify without order between them; give each its own");
  notify.takes.push_back(order_.now(waiting.stream));
  hear(waiting.stream, notify.posts.front(), 0);
  notify.posts.pop_front();
}

}  // namespace cohort::check
