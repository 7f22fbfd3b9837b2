// SPDX-License-Identifier: Apache-2.0
// The links of a Machine: what is on its way, what it waits behind, and who takes it.
#include <cohort/collectives/machines/check/machine.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {

Channel& Machine::channel(Rank from, Rank to, Lane lane) {
  if (channels_.empty()) channels_.resize(static_cast<std::size_t>(plan_.ranks) * plan_.ranks * kMostLanes);
  std::unique_ptr<Channel>& place =
      channels_[(static_cast<std::size_t>(from) * plan_.ranks + to) * kMostLanes + lane];
  if (place) return *place;
  place = std::make_unique<Channel>();
  place->from = from;
  place->to = to;
  place->lane = lane;
  ranks_[to].incoming.push_back(place.get());
  return *place;
}

std::string Machine::objection_to_link(Rank rank, Rank peer, Lane lane) const {
  const Needs& needs = plan_.needs;
  const Rank ranks = plan_.ranks;
  if (peer >= ranks || peer == rank)
    return fmt::format("asks for a link to rank {}; links lead to other ranks, 0 to {}", peer, ranks - 1);
  if (lane >= needs.lanes || lane >= kMostLanes)
    return fmt::format("uses lane {}, but needs() asks for {}; let it ask for more", lane, needs.lanes);
  if (needs.has_link(plan_.hosts, rank, peer, lane)) return {};
  if (needs.has_link(plan_.hosts, rank, peer, 0))
    return fmt::format("uses lane {} to rank {}, but needs() asks for fewer across hosts", lane, peer);
  return fmt::format("uses a link to rank {} for which needs() does not ask; set links_to_all", peer);
}

bool Machine::on_link(const TaskRequest& request, TaskId task, Operation* operation) {
  const Rank rank = tasks_[task].rank;
  const std::string objection = objection_to_link(rank, request.peer, request.lane);
  if (!objection.empty()) {  // of a fault: schedules ask for their links first
    add(FindingKind::usage, task, objection);
    return true;
  }
  const Waiting waiting{operation, tasks_[task].stream, task};
  Channel& out = channel(rank, request.peer, request.lane);
  Channel& in = channel(request.peer, rank, request.lane);
  starting_ = operation;
  switch (request.kind) {
    case TaskKind::post:
      use_end(out.last_sent, task, out, "sending end");
      post(out, request, task);
      starting_ = nullptr;
      break;
    case TaskKind::wait: wait(in, request, waiting); break;
    case TaskKind::put:
    case TaskKind::get:
    case TaskKind::get_reduce:
      use_end(out.last_sent, task, out, "sending end");
      start_put_or_get(out, request, waiting);
      break;
    case TaskKind::send:
      use_end(out.last_sent, task, out, "sending end");
      start_send(out, request, waiting);
      break;
    case TaskKind::recv:
    case TaskKind::recv_reduce:
      use_end(in.last_received, task, in, "receiving end");
      if (!may_touch(rank, request.local, true, task, false)) {
        starting_ = nullptr;
        break;
      }
      in.receiver = waiting;
      in.receiver_slice = request.local;
      in.receiver_combines = request.kind == TaskKind::recv_reduce;
      in.receiver_averages = request.combine.average_over != 0;
      pump(in);
      break;
    default: starting_ = nullptr; break;
  }
  const bool is_complete = starting_ == nullptr;
  starting_ = nullptr;
  return is_complete;
}

/// One coroutine at a time uses a link in each direction: in every run, so that what comes first is certain.
void Machine::use_end(Access& last, TaskId task, const Channel& link, std::string_view end) {
  const StreamId stream = tasks_[task].stream;
  const Access before = std::exchange(last, now(task));
  if (before.when.at == 0 || order_.knows(stream, before.when)) return;
  const Rank peer = link.from == tasks_[task].rank ? link.to : link.from;
  add(FindingKind::usage, task,
      fmt::format(
          "uses the {} of the link to rank {} (lane {}) while {} uses it: nothing orders the two; give each "
          "stream a lane of its own, or order them",
          end, peer, link.lane, who(before.task)));
}

void Machine::count_message(Rank from, Rank to) {
  ++counting(from).messages;
  if (ranks_[from].operation == 1) ++ranks_[to].traffic.messages_taken;  // wherever the other one is by now
  if (plan_.hosts.host_of(from) == plan_.hosts.host_of(to)) ++counting(from).messages_inside;
}

void Machine::count_sent(Rank from, Rank to, std::size_t bytes) {
  counting(from).sent += bytes;
  if (plan_.hosts.host_of(from) == plan_.hosts.host_of(to)) counting(from).sent_inside += bytes;
}

Message Machine::message_of(MessageKind kind, const TaskRequest& request, const Waiting& waiting) {
  count_message(tasks_[waiting.task].rank, request.peer);
  Message message;
  message.kind = kind;
  message.signal = request.signal;
  message.operation = tasks_[waiting.task].operation;
  message.stamp = order_.stamp(waiting.stream);
  message.rounds = state(waiting.stream).rounds;
  message.path_bytes = state(waiting.stream).path_bytes;
  message.sender = waiting;
  message.remote = request.remote;
  message.local = request.local;
  message.bytes = request.local.bytes;
  return message;
}

void Machine::hear(StreamId stream, const Message& message, std::uint32_t hops) {
  order_.learn(stream, message.stamp);
  StreamState& of = state(stream);
  of.rounds = std::max(of.rounds, message.rounds + hops);
  of.path_bytes = std::max(of.path_bytes, message.path_bytes);
}

void Machine::check_limit(const Channel& link, SignalEnd& end, const TaskRequest& request, TaskId task) {
  const std::uint32_t operation = tasks_[task].operation;
  if (plan_.tags_signals && end.operation != operation) {
    end.operation = operation;
    end.posted = 0;
    end.takes.clear();
  }
  const std::uint32_t before = end.posted++;
  if (before < plan_.untaken_posts) return;
  const std::size_t must_be_taken = before - plan_.untaken_posts;
  const bool is_taken =
      must_be_taken < end.takes.size() && order_.knows(tasks_[task].stream, end.takes[must_be_taken]);
  if (is_taken) return;
  add(FindingKind::notify, task,
      fmt::format("posts {} again, which may come before rank {} has taken the last one: a flag swallows it; "
                  "let rank {} answer first, or use another signal",
                  to_string(request.signal), link.to, link.to));
}

void Machine::post(Channel& link, const TaskRequest& request, TaskId task) {
  check_limit(link, link.signals[static_cast<std::size_t>(request.signal)], request, task);
  Message message = message_of(MessageKind::signal, request, {nullptr, tasks_[task].stream, task});
  (plan_.is_eager ? link.passing_by : link.on_its_way).push_back(std::move(message));
  pump(link);
}

void Machine::enqueue(Channel& link, Message message) {
  link.on_its_way.push_back(std::move(message));
  pump(link);
}

void Machine::wait(Channel& link, const TaskRequest& request, const Waiting& waiting) {
  SignalEnd& end = link.signals[static_cast<std::size_t>(request.signal)];
  use_end(end.last_wait, waiting.task, link, to_string(request.signal));
  if (end.untaken.empty())
    end.waiting = waiting;
  else
    take_signal(end, waiting);
}

void Machine::take_signal(SignalEnd& end, const Waiting& waiting) {
  hear(waiting.stream, end.untaken.front(), 1);
  end.untaken.pop_front();
  end.takes.push_back(order_.now(waiting.stream));
  complete_waiting(waiting);
}

void Machine::start_send(Channel& link, const TaskRequest& request, const Waiting& waiting) {
  const Rank rank = tasks_[waiting.task].rank;
  if (!may_touch(rank, request.local, false, waiting.task, false)) return complete_waiting(waiting);
  count_sent(rank, request.peer, request.local.bytes);
  state(waiting.stream).path_bytes += request.local.bytes;
  Message message = message_of(MessageKind::bytes, request, waiting);
  message.content = read(rank, request.local, now(waiting.task));
  if (plan_.is_eager) {
    complete_waiting(waiting);
    message.sender.operation = nullptr;
  }
  enqueue(link, std::move(message));
}

void Machine::start_put_or_get(Channel& link, const TaskRequest& request, const Waiting& waiting) {
  const Rank rank = tasks_[waiting.task].rank;
  const bool puts = request.kind == TaskKind::put;
  if (request.local.bytes != request.remote.bytes)
    add(FindingKind::bounds, waiting.task,
        fmt::format("moves {} bytes between slices of {} and {} bytes; give both the same size",
                    request.local.bytes, request.local.bytes, request.remote.bytes));
  const bool may = may_touch(rank, request.local, !puts, waiting.task, true) &&
                   may_touch(request.peer, request.remote, puts, waiting.task, true);
  if (!may) return complete_waiting(waiting);
  Message message = message_of(puts ? MessageKind::put : MessageKind::get, request, waiting);
  message.is_combined = request.kind == TaskKind::get_reduce;
  message.is_averaged = message.is_combined && request.combine.average_over != 0;
  if (puts) {
    check_limit(link, link.signals[static_cast<std::size_t>(request.signal)], request, waiting.task);
    count_sent(rank, request.peer, request.local.bytes);
    message.path_bytes = state(waiting.stream).path_bytes += request.local.bytes;
    message.content = read(rank, request.local, now(waiting.task));
  }
  enqueue(link, std::move(message));
}

/// Delivers as far as the receiver is ready for it.
void Machine::pump(Channel& link) {
  pump(link, link.on_its_way);
  pump(link, link.passing_by);
}

void Machine::pump(Channel& link, Line<Message>& line) {
  while (!line.empty()) {
    Message& message = line.front();
    const RankState& to = ranks_[link.to];
    if (message.operation > to.operation) return;
    const bool is_late = message.operation < to.operation || !to.is_inside;
    if (is_late && message.kind != MessageKind::get) {  // a late get reads what it can, and is found out so
      const Message late = std::move(message);
      line.pop_front();
      lost(late);
      complete_waiting(late.sender);
      continue;
    }
    if (!deliver(link, message)) return;  // which puts nothing more on this link
    line.pop_front();
  }
}

bool Machine::deliver(Channel& link, Message& message) {
  switch (message.kind) {
    case MessageKind::signal: deliver_signal(link, message); return true;
    case MessageKind::put: deliver_put(link, message); return true;
    case MessageKind::get: serve_get(link, message); return true;
    case MessageKind::reply: finish_get(link, message); return true;
    case MessageKind::bytes: return deliver_bytes(link, message);
  }
  return true;
}

void Machine::deliver_signal(Channel& link, Message message) {
  if (link.puts) {  // it arrives after what was put before it
    order_.learn(*link.puts, message.stamp);
    message.stamp = order_.stamp(*link.puts);
  }
  SignalEnd& end = link.signals[static_cast<std::size_t>(message.signal)];
  end.untaken.push_back(std::move(message));
  if (!end.waiting) return;
  const Waiting waiting = *std::exchange(end.waiting, std::nullopt);
  take_signal(end, waiting);
}

void Machine::deliver_put(Channel& link, Message& message) {
  if (!link.puts) link.puts = add_stream(link.from);
  order_.learn(*link.puts, message.stamp);
  const Access by{order_.tick(*link.puts), message.sender.task};
  write(link.to, message.remote, message.content, by);
  counting(link.to).received += message.bytes;
  complete_waiting(message.sender);
  deliver_signal(link, std::move(message));
}

void Machine::serve_get(Channel& link, Message& message) {
  if (link.puts) order_.learn(message.sender.stream, order_.stamp(*link.puts));
  Message reply = message;
  reply.kind = MessageKind::reply;
  reply.content = read(link.to, message.remote, now(message.sender.task));
  count_sent(link.to, link.from, reply.bytes);
  count_message(link.to, link.from);
  reply.path_bytes += reply.bytes;
  Channel& back = channel(link.to, link.from, link.lane);
  back.gets.push_back(now(message.sender.task));
  const RankState& server = ranks_[link.to];
  const bool is_late = !server.is_inside || server.operation != message.operation;
  if (is_late)
    finish_get(back, reply);  // what that leads to has been found
  else
    enqueue(back, std::move(reply));
}

void Machine::finish_get(Channel& link, Message& message) {
  const Access by = now(message.sender.task);
  expressions_.work_for(by.task);
  Content content = std::move(message.content);
  if (message.is_combined) content = combine(read(link.to, message.local, by), content, by.task);
  if (message.is_averaged) average(content, Step::goes_on);
  write(link.to, message.local, content, by);
  Traffic& traffic = counting(link.to);
  traffic.received += message.bytes;
  if (message.is_combined) {
    traffic.combined += message.bytes;
    traffic.operands += 2 * message.bytes;
  }
  StreamState& of = state(message.sender.stream);
  of.rounds = std::max(of.rounds, message.rounds + 2);
  of.path_bytes = std::max(of.path_bytes, message.path_bytes);
  complete_waiting(message.sender);
}

/// Bytes wait for their receiver, and everything behind them waits, too.
bool Machine::deliver_bytes(Channel& link, Message& message) {
  if (!link.receiver) return false;
  const Waiting receiver = *std::exchange(link.receiver, std::nullopt);
  const std::size_t expected = link.receiver_slice.bytes;
  if (expected != message.bytes)
    add(FindingKind::bounds, receiver.task,
        fmt::format("takes {} bytes where {} sends {}; let both sides name slices of one size", expected,
                    who(message.sender.task), message.bytes));
  check_replies(link, message, receiver);
  const bool is_empty = message.bytes == 0 || expected == 0;
  if (is_empty && !plan_.empty_messages_order)  // on shared memory nobody meets for nothing
    ranks_[link.to].has_empty_messages = ranks_[link.from].has_empty_messages = had_empty_messages_ = true;
  else
    hear(receiver.stream, message, 1);
  const Access by = now(receiver.task);
  expressions_.work_for(by.task);
  Content content = std::move(message.content);
  Slice to = link.receiver_slice;
  to.bytes = std::min(expected, message.bytes);
  Traffic& traffic = counting(link.to);
  if (link.receiver_combines) {
    content = combine(read(link.to, to, by), content, by.task);
    if (link.receiver_averages) average(content, Step::goes_on);
    traffic.combined += to.bytes;
    traffic.operands += 2 * to.bytes;
  }
  if (expected >= message.bytes) write(link.to, to, content, by);
  traffic.received += to.bytes;
  const Waiting sender = message.sender;
  complete_waiting(receiver);
  complete_waiting(sender);
  return true;
}

/// A reply comes in order with what else the peer sends. If these bytes may have been sent before it, and are
/// received only after it, it never comes.
void Machine::check_replies(const Channel& link, const Message& message, const Waiting& receiver) {
  for (const Access& get : link.gets) {
    const bool is_received_after = order_.knows(receiver.stream, get.when);
    if (!is_received_after || order_.knows(message.stamp, get.when)) continue;
    add(FindingKind::deadlock, get.task,
        fmt::format("may wait for ever: its reply may stand behind {}, which {} receives only afterwards; "
                    "let rank {} "
                    "send after a signal that is posted after this task",
                    who(message.sender.task), who(receiver.task), link.from));
  }
}

void Machine::lost(const Message& message) {
  const TaskId task = message.sender.task;
  const Rank peer = tasks_[task].peer;
  if (message.kind == MessageKind::signal)
    add(FindingKind::notify, task,
        fmt::format(
            "is lost: rank {} leaves the operation without taking it; let it wait for the signal, or take "
            "the post away",
            peer));
  else if (message.kind == MessageKind::bytes)
    add(FindingKind::deadlock, task,
        fmt::format(
            "waits for ever: rank {} leaves the operation and does not receive; let rank {} receive, or "
            "take this task away",
            peer, peer));
  else
    add(FindingKind::conflict, task,
        fmt::format(
            "is not over when rank {} leaves the operation; let rank {} wait for a signal that is posted "
            "after this task",
            peer, peer));
}

}  // namespace cohort::check
