// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/sim/machine.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::sim {
namespace {

constexpr std::size_t kBytes = kSignals;  ///< the place of bytes behind the signals
constexpr std::size_t kMostComplaints = 32;
constexpr double kPicosecondsPerNanosecond = 1e3;
constexpr double kPicosecondsPerMicrosecond = 1e6;
constexpr int kRankBits = 28;
constexpr int kLaneBits = 8;

std::uint64_t key(Rank from, Rank to, Lane lane = 0) {
  return (std::uint64_t{from} << kRankBits | to) << kLaneBits | lane;
}

double microseconds(Time time) { return static_cast<double>(time) / kPicosecondsPerMicrosecond; }

std::string_view name_of_wait(std::size_t what) {
  constexpr std::array<std::string_view, kSignals + 1> kNames = {"an Ack", "a DataSignal", "a DataAck",
                                                                 "bytes"};
  return kNames[what];
}

}  // namespace

class Machine::OneLink final : public Link {
 public:
  OneLink(Machine& machine, Channel& out, Channel& in) noexcept
      : Link(out.to), machine_(machine), out_(out), in_(in) {}

  [[nodiscard]] std::string_view transport() const noexcept override { return "sim"; }

 private:
  bool start(LinkOperation& operation) override { return machine_.start(operation, out_, in_); }
  void cancel(LinkOperation& operation) noexcept override { operation.finish(); }

  Machine& machine_;
  Channel& out_;
  Channel& in_;
};

Machine::Machine(const Topology& topology, Rank ranks, std::uint64_t seed, const Trace* trace)
    : Stage(ranks),
      topology_(topology),
      network_(topology, ranks),
      trace_(trace),
      is_shuffled_(seed != 0),
      random_(static_cast<std::mt19937::result_type>(seed)),
      states_(ranks) {
  for (const SlowRank& slow : topology.slow_ranks) states_[slow.rank].slowness = slow.factor;
  for (const DeadRank& dead : topology.dead_ranks) states_[dead.rank].dies_at = dead.step;
  for (const LostLink& link : topology.lost_links) losses_[key(link.from, link.to)] = {link.step, 0};
}

Machine::~Machine() = default;

Machine::Channel& Machine::channel(Rank from, Rank to, Lane lane) {
  Channel& channel = channels_[key(from, to, lane)];
  channel.from = from;
  channel.to = to;
  return channel;
}

Link& Machine::link(Rank from, Rank to, Lane lane) {
  std::unique_ptr<OneLink>& place = links_[key(from, to, lane)];
  if (!place) place = std::make_unique<OneLink>(*this, channel(from, to, lane), channel(to, from, lane));
  return *place;
}

bool Machine::complete_at(Operation& operation, StreamId stream, Time at) {
  if (at <= now_) return true;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.push_back({});
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot] = {&operation, stream};
  const std::uint32_t order = is_shuffled_ ? static_cast<std::uint32_t>(random_()) : events_++;
  queue_.push_back({at, order, slot});
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  return false;
}

bool Machine::advance() {
  if (queue_.empty() || is_ending()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
  const Event next = queue_.back();
  queue_.pop_back();
  now_ = next.at;
  free_slots_.push_back(next.slot);
  resume_later(*slots_[next.slot].operation, slots_[next.slot].stream);
  return true;
}

Time Machine::local_time(LocalStep::Kind kind, std::size_t bytes, Rank rank) const {
  const double speed = kind == LocalStep::Kind::copy ? topology_.copy_gigabytes_per_second
                                                     : topology_.reduce_gigabytes_per_second;
  if (speed == 0) return 0;
  return std::llround(static_cast<double>(bytes) / speed * kPicosecondsPerNanosecond *
                      states_[rank].slowness);
}

Time Machine::combining(const LinkOperation& operation, Rank rank) const {
  const LinkOperation::Kind kind = operation.request().kind;
  if (kind != LinkOperation::Kind::get_reduce && kind != LinkOperation::Kind::recv_reduce) return 0;
  return local_time(LocalStep::Kind::reduce, 2 * operation.request().local.bytes, rank);
}

void Machine::spend(LocalStep::Kind kind, std::size_t bytes) {
  const Rank rank = rank_of(running());
  Time& ready = states_[rank].ready;
  ready = std::max(ready, now_) + local_time(kind, bytes, rank);
}

void Machine::finished() {
  if (!is_ending()) end_ = std::max({end_, now_, states_[rank_of(running())].ready});
}

bool Machine::meet(Operation& operation) {
  const Rank rank = rank_of(running());
  if (is_ending()) return true;
  if (dies(rank)) return false;
  meeting_.push_back({&operation, running()});
  if (meeting_.size() < ranks()) return false;
  Time at = now_;
  for (const Completion& one : meeting_) at = std::max(at, states_[rank_of(one.stream)].ready);
  at += network_.latency(rank, (rank + 1) % ranks());
  bool is_complete = false;
  for (const Completion& one : meeting_) {
    const bool is_now = complete_at(*one.operation, one.stream, at);
    if (is_now && one.operation == &operation) is_complete = true;
    if (is_now && one.operation != &operation) resume_later(*one.operation, one.stream);
  }
  meeting_.clear();
  return is_complete;
}

bool Machine::dies(Rank rank) {
  RankState& state = states_[rank];
  if (!state.is_dead && ++state.steps == state.dies_at) {
    state.is_dead = true;
    complaints_.push_back(
        fmt::format("rank {} died at {:.3f} us, in its step {}", rank, microseconds(now_), state.steps));
  }
  return state.is_dead;
}

bool Machine::loses(const Channel& channel) {
  if (losses_.empty()) return false;
  const auto entry = losses_.find(key(channel.from, channel.to));
  if (entry == losses_.end() || ++entry->second.messages < entry->second.step) return false;
  if (entry->second.messages == entry->second.step)
    complaints_.push_back(
        fmt::format("the link from rank {} to rank {} was lost at {:.3f} us, with message {}", channel.from,
                    channel.to, microseconds(now_), entry->second.step));
  return true;
}

bool Machine::start(LinkOperation& operation, Channel& out, Channel& in) {
  using Kind = LinkOperation::Kind;
  if (is_ending()) return true;
  const LinkOperation::Request& request = operation.request();
  const Rank rank = out.from;
  if (dies(rank)) return false;
  const Time at = std::max(now_, states_[rank].ready);
  if (trace_ != nullptr) (*trace_)({at, rank, out.to, request.kind, request.local.bytes});
  const auto signal = static_cast<std::size_t>(request.signal);
  switch (request.kind) {
    case Kind::wait: return take(operation, in, signal, at);
    case Kind::recv:
    case Kind::recv_reduce: return take(operation, in, kBytes, at);
    case Kind::get:
    case Kind::get_reduce: return start_get(operation, out, at);
    default: break;
  }
  ++messages_;
  const bool is_lost = loses(out);
  if (request.kind == Kind::post) {
    if (!is_lost) arrive(out, signal, at + network_.latency(rank, out.to));
    return true;
  }
  const Passage passage = network_.pass(rank, out.to, request.local.bytes, at);
  if (!is_lost) arrive(out, request.kind == Kind::put ? signal : kBytes, passage.arrived);
  return complete_at(operation, running(), passage.sent);
}

/// The peer's bytes come by themselves: nobody there has to do anything.
bool Machine::start_get(LinkOperation& operation, const Channel& out, Time at) {
  ++messages_;
  if (loses(out)) return false;
  const Time asked = at + network_.latency(out.from, out.to);
  const Passage passage = network_.pass(out.to, out.from, operation.request().local.bytes, asked);
  return complete_at(operation, running(), passage.arrived + combining(operation, out.from));
}

bool Machine::take(LinkOperation& operation, Channel& in, std::size_t what, Time at) {
  machine::Line<Time>& arrivals = in.arrivals[what];
  if (arrivals.empty()) {
    in.waiting[what] = {&operation, running(), at};
    return false;
  }
  const Time arrived = arrivals.front();
  arrivals.pop_front();
  return complete_at(operation, running(), std::max(at, arrived) + combining(operation, in.to));
}

/// Effects of one link arrive in order.
void Machine::arrive(Channel& channel, std::size_t what, Time at) {
  channel.last_arrival = std::max(channel.last_arrival, at);
  Waiting& waiting = channel.waiting[what];
  if (waiting.operation == nullptr) {
    channel.arrivals[what].push_back(channel.last_arrival);
    return;
  }
  const Time end = std::max(waiting.since, channel.last_arrival) + combining(*waiting.operation, channel.to);
  LinkOperation& operation = *waiting.operation;
  waiting.operation = nullptr;
  if (complete_at(operation, waiting.stream, end)) resume_later(operation, waiting.stream);
}

void Machine::notify_posted(Operation& notify, std::uint32_t, std::uint32_t) noexcept {
  const auto entry = awaited_.find(&notify);
  if (is_ending() || entry == awaited_.end()) return;
  resume_later(notify, entry->second);
  awaited_.erase(entry);
}

void Machine::stuck() {
  if (is_ending()) return;
  std::vector<std::string> waits;
  std::vector<std::uint64_t> keys;
  for (const auto& [id, channel] : channels_) keys.push_back(id);
  std::sort(keys.begin(), keys.end());
  for (const std::uint64_t id : keys) {
    const Channel& channel = channels_[id];
    for (std::size_t what = 0; what < channel.waiting.size(); ++what) {
      const Waiting& waiting = channel.waiting[what];
      if (waiting.operation == nullptr || states_[channel.to].is_dead) continue;
      waits.push_back(fmt::format("rank {} ({}) waits for {} from rank {}{} since {:.3f} us", channel.to,
                                  name_of(waiting.stream), name_of_wait(what), channel.from,
                                  states_[channel.from].is_dead ? ", which died," : "",
                                  microseconds(waiting.since)));
    }
  }
  if (!meeting_.empty())
    waits.push_back(fmt::format("{} of {} ranks wait for the others in a phase", meeting_.size(), ranks()));
  const std::size_t shown = std::min(waits.size(), kMostComplaints);
  complaints_.insert(complaints_.end(), waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(shown));
  if (waits.size() > shown) complaints_.push_back(fmt::format("and {} more wait", waits.size() - shown));
}

}  // namespace cohort::sim
