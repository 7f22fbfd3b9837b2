// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/machine.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace cohort::sim {
namespace {

constexpr std::size_t kMostComplaints = 32;
constexpr std::uint64_t kMessagesBetweenReports = 1 << 16;
constexpr int kRankBits = 28;
constexpr int kLaneBits = 8;

std::uint64_t key(Rank from, Rank to, Lane lane) {
  return (std::uint64_t{from} << kRankBits | to) << kLaneBits | lane;
}

/// Signals have none.
std::size_t payload(const LinkOperation::Request& request) {
  return request.kind == LinkOperation::Kind::post ? 0 : request.local.bytes;
}

}  // namespace

Machine::Machine(const Topology& topology, Rank ranks, std::uint64_t seed, const Watchers& watchers)
    : Stage(ranks),
      copy_picoseconds_per_byte_(picoseconds_per_byte(topology.copy_gigabytes_per_second)),
      reduce_picoseconds_per_byte_(picoseconds_per_byte(topology.reduce_gigabytes_per_second)),
      network_(topology, ranks),
      processors_(topology, ranks),
      faults_(topology.faults, ranks),
      watchers_(watchers),
      agenda_(seed),
      times_(ranks) {
  waiting_hosts_.resize(network_.hosts());
  for (Rank rank = 0; rank < ranks; ++rank) ++waiting_hosts_[network_.host_of(rank)].expected;
  for (const LateRank& late : topology.faults.late_ranks) times_[late.rank] = from_nanoseconds(late.by_ns);
}

bool SimLink::start(LinkOperation& operation) { return machine_.start(operation, *this); }

SimLink& Machine::place(Rank from, Rank to, Lane lane) {
  return links_.try_emplace(key(from, to, lane), *this, from, to).first->second;
}

SimLink& Machine::link(Rank from, Rank to, Lane lane) {
  SimLink& link = place(from, to, lane);
  if (!link.is_joined()) link.join(place(to, from, lane));
  return link;
}

Time& Machine::time_of(StreamId stream) {
  if (stream >= times_.size()) times_.resize(stream + 1);
  times_[stream] = std::max(times_[stream], now_);
  return times_[stream];
}

void Machine::forked(StreamId parent, StreamId child) noexcept {
  const Time begin = time_of(parent);
  time_of(child) = begin;
}

void Machine::joined(StreamId parent, std::span<const StreamId> children) noexcept {
  Time end = time_of(parent);
  for (const StreamId child : children) end = std::max(end, times_[child]);
  times_[parent] = end;
}

/// Thousands of ranks do not fit into a core's cache; what is next comes while this step is carried out.
void Machine::prefetch(const Step& step) const noexcept {
  constexpr std::ptrdiff_t kLine = 64;
  constexpr std::ptrdiff_t kLinesOfFrame = 4;
  const auto* const operation = reinterpret_cast<const std::byte*>(step.operation);
  for (std::ptrdiff_t line = -1; line < kLinesOfFrame; ++line) __builtin_prefetch(operation + line * kLine);
  __builtin_prefetch(&times_[step.stream]);
}

bool Machine::advance() {
  if (agenda_.empty() || is_ending()) return false;
  now_ = agenda_.next_at();
  const Step step = agenda_.take();
  if (const Step* const next = agenda_.next(); next != nullptr) prefetch(*next);
  bool is_complete = false;
  switch (step.action) {
    case Action::begin: is_complete = begin(step); break;
    case Action::leave: is_complete = leave(step); break;
    case Action::pass: is_complete = pass(step); break;
    case Action::read: is_complete = read(step); break;
    case Action::resume: is_complete = resume(step, now_); break;
  }
  if (is_complete) resume_later(*step.operation, step.stream);
  return true;
}

/// What the rank does with a message that has come, signals included.
Time Machine::taking_work(const LinkOperation& operation, const SimLink& link) const {
  using Kind = LinkOperation::Kind;
  const LinkOperation::Request& request = operation.request();
  const Time work = network_.message_work(link.peer(), link.rank());
  if (request.kind == Kind::wait) return work;
  const bool combines = request.kind == Kind::get_reduce || request.kind == Kind::recv_reduce;
  const double operands = combines ? 2 * static_cast<double>(request.local.bytes) : 0;
  return work + network_.byte_work(link.peer(), link.rank(), request.local.bytes) +
         for_bytes(operands, reduce_picoseconds_per_byte_);
}

void Machine::spend(LocalStep::Kind kind, std::size_t bytes) {
  if (bytes == 0) return;
  const double per_byte =
      kind == LocalStep::Kind::copy ? copy_picoseconds_per_byte_ : reduce_picoseconds_per_byte_;
  Time& time = time_of(running());
  time = processors_.work(rank_of(running()), time, for_bytes(static_cast<double>(bytes), per_byte));
}

void Machine::finished() {
  if (!is_ending()) end_ = std::max(end_, time_of(running()));
}

bool Machine::meet(Operation& operation) {
  if (is_ending()) return true;
  const Rank rank = rank_of(running());
  Time& time = time_of(running());
  if (faults_.stops(rank, time)) return false;
  time = processors_.work(rank, time, 0);  // a store and a load, but a core has to be there
  WaitingHost& host = waiting_hosts_[network_.host_of(rank)];
  host.last = std::max(host.last, time);
  host.waiting.push_back({.stream = running(), .operation = &operation});
  if (host.waiting.size() < host.expected) return false;
  for (const Step& step : host.waiting) agenda_.add(host.last + network_.latency_inside(), step);
  host.waiting.clear();
  return false;
}

bool Machine::start(LinkOperation& operation, SimLink& link) {
  using Kind = LinkOperation::Kind;
  if (is_ending()) return true;
  const Time at = time_of(running());
  if (faults_.stops(link.rank(), at)) return false;
  const LinkOperation::Request& request = operation.request();
  if (watchers_.trace != nullptr)
    (*watchers_.trace)({at, link.rank(), link.peer(), request.kind, request.local.bytes});
  if (request.kind == Kind::wait || request.kind == Kind::recv || request.kind == Kind::recv_reduce)
    return take(operation, link, at);
  const Step step{.action = Action::begin, .stream = running(), .operation = &operation, .link = &link};
  if (at <= std::max(now_, processors_.free_at(link.rank()))) return begin(step);
  agenda_.add(at, step);  // not before: the processor may have something else to do until then
  return false;
}

/// The rank turns to what it sends, or asks for. A message may take its places in the network early, by its
/// latency at most: that saves an event for each.
bool Machine::begin(const Step& step) {
  using Kind = LinkOperation::Kind;
  const SimLink& link = *step.link;
  const LinkOperation::Request& request = static_cast<LinkOperation*>(step.operation)->request();
  const bool reads = request.kind == Kind::get || request.kind == Kind::get_reduce;
  const bool moves = !reads && request.kind != Kind::post;
  const Time moving = moves ? network_.byte_work(link.rank(), link.peer(), request.local.bytes) : 0;
  const Time work = network_.message_work(link.rank(), link.peer()) + moving;
  const Time done = processors_.work(link.rank(), time_of(step.stream), work);
  const Time latency = network_.latency(link.rank(), link.peer());
  times_[step.stream] = done;
  ++messages_;
  if (watchers_.progress != nullptr && messages_ % kMessagesBetweenReports == 0)
    (*watchers_.progress)(messages_);
  Step next = step;
  next.not_before = done - moving;
  if (reads) {
    next.action = Action::read;
    next.not_before += latency;
  } else {
    next.action = Action::leave;
    if (next.not_before <= now_ + latency) return leave(next);
  }
  agenda_.add(next.not_before, next);
  return false;
}

bool Machine::leave(const Step& step) {
  const LinkOperation::Request& request = static_cast<LinkOperation*>(step.operation)->request();
  const SimLink& link = *step.link;
  Step next = step;
  next.action = Action::pass;
  next.not_before = network_.leave(link.rank(), link.peer(), payload(request), step.not_before);
  if (next.not_before <= now_ + network_.latency(link.rank(), link.peer())) return pass(next);
  agenda_.add(next.not_before, next);
  return false;
}

bool Machine::pass(const Step& step) {
  const LinkOperation::Request& request = static_cast<LinkOperation*>(step.operation)->request();
  const SimLink& link = *step.link;
  const Passage passage = network_.pass(link.rank(), link.peer(), payload(request), step.not_before);
  const Time worked = times_[step.stream];
  if (request.kind != LinkOperation::Kind::post) times_[step.stream] = std::max(worked, passage.sent);
  if (faults_.loses(link.rank(), link.peer(), step.not_before)) return true;
  const Time moved = worked + network_.latency(link.rank(), link.peer());
  arrive(link.reverse(), request, {passage.first, std::max(passage.arrived, moved)});
  return true;
}

/// At the peer, whose processor has nothing to do with it.
bool Machine::read(const Step& step) {
  LinkOperation& operation = *static_cast<LinkOperation*>(step.operation);
  SimLink& link = *step.link;
  if (faults_.loses(link.rank(), link.peer(), now_)) {
    Flow& flow = link.flow(operation.request());
    flow.waiting = &operation;
    flow.since = now_;
    flow.stream = step.stream;
    return false;
  }
  const std::size_t bytes = operation.request().local.bytes;
  const Time begin = network_.leave(link.peer(), link.rank(), bytes, now_);
  const Passage passage = network_.pass(link.peer(), link.rank(), bytes, begin);
  Step last = step;
  last.action = Action::resume;
  last.work = taking_work(operation, link);
  last.not_before = passage.arrived;
  agenda_.add(passage.arrived, last);
  return false;
}

void Machine::arrive(SimLink& link, const LinkOperation::Request& request, const Arrival& at) {
  Flow& flow = link.flow(request);
  const Arrival arrival = link.in_order(at);
  if (flow.waiting == nullptr) {
    flow.arrivals.push_back(arrival);
    return;
  }
  LinkOperation& operation = *std::exchange(flow.waiting, nullptr);
  if (take_over(operation, link, flow.stream, flow.since, arrival)) resume_later(operation, flow.stream);
}

bool Machine::take(LinkOperation& operation, SimLink& link, Time at) {
  Flow& flow = link.flow(operation.request());
  if (flow.arrivals.empty()) {
    flow.waiting = &operation;
    flow.stream = running();
    flow.since = at;
    return false;
  }
  const Arrival arrival = flow.arrivals.front();
  flow.arrivals.pop_front();
  return take_over(operation, link, running(), at, arrival);
}

/// A stream that has waited `since` gets what arrives. Its processor begins when all is there, or at the
/// first byte if it has to move the bytes itself.
bool Machine::take_over(LinkOperation& operation, const SimLink& link, StreamId stream, Time since,
                        const Arrival& arrival) {
  const bool moves = network_.byte_work(link.peer(), link.rank(), operation.request().local.bytes) != 0;
  const Time at = std::max(since, moves ? arrival.first : arrival.last);
  const Step step{.stream = stream,
                  .operation = &operation,
                  .work = taking_work(operation, link),
                  .not_before = arrival.last};
  if (at <= std::max(now_, processors_.free_at(link.rank()))) return resume(step, at);
  agenda_.add(at, step);
  return false;
}

bool Machine::resume(const Step& step, Time at) {
  const Time done = processors_.work(rank_of(step.stream), at, step.work);
  times_[step.stream] = std::max(done, step.not_before);
  return true;
}

StreamWatcher::NotifyId Machine::makes_notify(std::uint32_t) {
  notified_.try_emplace(++last_notify_);
  return last_notify_;
}

/// Whoever takes the post goes on not before it was posted.
void Machine::posts(NotifyId notify) noexcept {
  if (is_ending()) return;
  Notified& notified = notified_[notify];
  const Time at = time_of(running());
  if (notified.wait == nullptr) {
    notified.posts.push_back(at);
    return;
  }
  Time& time = time_of(notified.waiter);
  time = std::max(time, at);
  resume_later(*std::exchange(notified.wait, nullptr), notified.waiter);
}

bool Machine::takes_post(NotifyId notify) {
  machine::Line<Time>& posts = notified_[notify].posts;
  if (posts.empty()) return is_ending();
  Time& time = time_of(running());
  time = std::max(time, posts.front());
  posts.pop_front();
  return true;
}

void Machine::awaits_post(NotifyId notify, Operation& wait) noexcept {
  Notified& notified = notified_[notify];
  notified.wait = &wait;
  notified.waiter = running();
}

void Machine::stuck() {
  if (is_ending()) return;
  constexpr std::array<std::string_view, 1 + kSignals> kNames = {"bytes", "an Ack", "a DataSignal",
                                                                 "a DataAck"};
  std::vector<std::pair<std::uint64_t, const SimLink*>> links;
  for (const auto& [id, link] : links_) links.emplace_back(id, &link);
  std::sort(links.begin(), links.end());
  for (const auto& [id, link] : links) {
    if (!faults_.end_of(link->rank()).empty()) continue;
    const std::string_view end = faults_.end_of(link->peer());
    for (std::size_t i = 0; i < link->flows().size(); ++i) {
      const Flow& flow = link->flows()[i];
      if (flow.waiting == nullptr) continue;
      waits_.push_back(fmt::format("rank {} ({}) waits for {} from rank {}{} since {:.3f} us", link->rank(),
                                   name_of(flow.stream), kNames[i], link->peer(),
                                   end.empty() ? "" : fmt::format(", which {},", end),
                                   in_microseconds(flow.since)));
    }
  }
  for (std::size_t host = 0; host < waiting_hosts_.size(); ++host)
    if (const WaitingHost& one = waiting_hosts_[host]; !one.waiting.empty())
      waits_.push_back(fmt::format("{} of {} ranks of host {} wait for the others in a phase",
                                   one.waiting.size(), one.expected, host));
  for (const auto& [id, notified] : notified_)
    if (notified.wait != nullptr)
      waits_.push_back(
          fmt::format("rank {} ({}) waits for a Notify", rank_of(notified.waiter), name_of(notified.waiter)));
  if (waits_.empty())
    waits_.emplace_back("a rank waits for what no machine knows: a timer, an Event or a Notify of its own");
}

std::vector<std::string> Machine::complaints() const {
  std::vector<std::string> all = faults_.events();
  const std::size_t shown = std::min(waits_.size(), kMostComplaints);
  all.insert(all.end(), waits_.begin(), waits_.begin() + static_cast<std::ptrdiff_t>(shown));
  if (waits_.size() > shown) all.push_back(fmt::format("and {} more wait", waits_.size() - shown));
  return all;
}

}  // namespace cohort::sim
