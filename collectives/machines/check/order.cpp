// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/order.h>

#include <algorithm>

namespace cohort::check {
namespace {

/// No stream.
constexpr Moment kNobody{~StreamId{0}, 0};

bool comes_before(const Past::Entry& entry, StreamId stream) { return entry.stream < stream; }

}  // namespace

std::uint32_t Past::find_other(StreamId stream) const noexcept {
  const auto at = std::lower_bound(others.begin(), others.end(), stream, comes_before);
  return at != others.end() && at->stream == stream ? at->at : 0;
}

void Past::raise(StreamId stream, std::uint32_t at) {
  if (stream < mains.size()) {
    mains[stream] = std::max(mains[stream], at);
    return;
  }
  const auto place = std::lower_bound(others.begin(), others.end(), stream, comes_before);
  if (place != others.end() && place->stream == stream)
    place->at = std::max(place->at, at);
  else
    others.insert(place, {stream, at});
}

void Past::merge_mains(const Past& other) noexcept {
  const std::uint32_t* const theirs = other.mains.data();
  for (std::size_t rank = 0; rank < mains.size(); ++rank) mains[rank] = std::max(mains[rank], theirs[rank]);
}

void Past::merge(const Past& other) {
  merge_mains(other);
  merge_sorted(other.others);
}

void Past::merge(machine::CaseVector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.at > b.at;
  });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry& a, const Entry& b) { return a.stream == b.stream; }),
                entries.end());
  merge_sorted(entries);
}

void Past::merge_sorted(const machine::CaseVector<Entry>& entries) {
  if (entries.empty()) return;
  if (others.empty()) {
    others = entries;
    return;
  }
  machine::CaseVector<Entry> merged;
  merged.reserve(others.size() + entries.size());
  auto mine = others.begin();
  auto theirs = entries.begin();
  while (mine != others.end() && theirs != entries.end()) {
    if (mine->stream < theirs->stream) {
      merged.push_back(*mine++);
    } else if (theirs->stream < mine->stream) {
      merged.push_back(*theirs++);
    } else {
      merged.push_back({mine->stream, std::max(mine->at, theirs->at)});
      ++mine;
      ++theirs;
    }
  }
  merged.insert(merged.end(), mine, others.end());
  merged.insert(merged.end(), theirs, entries.end());
  others = std::move(merged);
}

Order::Order(Rank ranks)
    : ranks_(ranks), nothing_(spare_, std::make_unique<Past>()), states_(std::size_t{ranks} + 1) {
  nothing_.own().mains.assign(ranks, 0);
  for (State& one : states_) {
    one.past = nothing_;
    one.depth = 0;
  }
}

Order::~Order() = default;

void Order::add_states(StreamId last) {
  while (last >= states_.size()) {
    states_.emplace_back();
    states_.back().past = nothing_;
  }
}

SharedPast Order::copy_of(const Past& past) {
  std::unique_ptr<Past> fresh;
  if (spare_.empty()) {
    fresh = std::make_unique<Past>();
  } else {
    fresh = std::move(spare_.back());
    spare_.pop_back();
  }
  *fresh = past;
  return {spare_, std::move(fresh)};
}

Past& Order::own_past(State& state) {
  if (state.past.is_shared()) state.past = copy_of(*state.past);
  return state.past.own();
}

void Order::learn(StreamId stream, const Stamp& stamp) {
  State& learner = state(stream);
  const bool is_same = learner.past == stamp.past;
  if (is_same && covers(*learner.past, {stream, learner.now}, stamp.self)) return;
  Past& past = own_past(learner);
  if (!is_same) past.merge(*stamp.past);
  if (stamp.self.stream != stream) past.raise(stamp.self.stream, stamp.self.at);
  if (past.others.size() >= past.prune_at) prune(past, {stream, learner.now});
}

void Order::tell(StreamId teller) {
  const Moment now{teller, states_[teller].now};
  const auto is_deeper = [&](const Past::Entry& entry) {
    return states_[entry.stream].depth > states_[teller].depth;
  };
  Past& past = own_past(states_[teller]);
  for (const Past::Entry& entry : past.others) {
    if (!is_deeper(entry) || is_joined(past, now, {entry.stream, entry.at})) continue;
    machine::CaseVector<Told>& told = states_[entry.stream].told;
    auto place = told.end();
    while (place != told.begin() && std::prev(place)->at > entry.at) --place;
    told.insert(place, {entry.at, now});
  }
  std::erase_if(past.others, is_deeper);
}

/// Short lists are carried along for less than it takes to tell of them, but for main streams, on whom all
/// others build.
bool Order::has_news(StreamId stream) const noexcept {
  const State& of = states_[stream];
  if (of.past->others.empty() || (stream >= ranks_ && of.past->others.size() < of.past->prune_at))
    return false;
  return std::any_of(of.past->others.begin(), of.past->others.end(),
                     [&](const Past::Entry& entry) { return states_[entry.stream].depth > of.depth; });
}

void Order::fork(StreamId parent, StreamId child) {
  (void)state(std::max(parent, child));  // before references are taken
  State& from = states_[parent];
  State& to = states_[child];
  to.parent = parent;
  to.depth = from.depth + 1;
  if (has_news(parent)) {
    ++from.now;  // what it has sent before does not tell of it
    tell(parent);
  }
  if (from.past->find(parent) < from.now) own_past(from).raise(parent, from.now);
  to.past = from.past;
}

void Order::join(StreamId parent, std::span<const StreamId> children) {
  for (const StreamId child : children) (void)state(std::max(parent, child));
  State& to = states_[parent];
  ++to.now;
  const SharedPast at_fork = to.past;  // which is that of children that have heard nothing
  std::size_t fresh = 0;
  for (const StreamId child : children) {
    State& from = states_[child];
    if (from.first.from == 0)
      from.first = {from.now, to.now};
    else
      from.later.push_back({from.now, to.now});
    if (from.past == at_fork) continue;
    if (++fresh == 1)
      to.past = from.past;  // it knows all that its parent did
    else
      own_past(to).merge_mains(*from.past);
  }
  if (fresh > 1) {
    own_past(to).others = at_fork->others;
    hear_of(children, at_fork, {parent, to.now});
    to.past.own().merge(heard_);
  }
  if (has_news(parent)) tell(parent);
  if (to.past->others.size() >= to.past->prune_at) prune(own_past(to), {parent, to.now});
}

/// What the children have beyond the past in which they were forked; of each stream once.
void Order::hear_of(std::span<const StreamId> children, const SharedPast& at_fork, Moment parent) {
  heard_.clear();
  latest_.resize(states_.size());
  for (const StreamId child : children) {
    const SharedPast& past = states_[child].past;
    if (past == at_fork) continue;
    auto known = at_fork->others.begin();
    for (const Past::Entry& entry : past->others) {
      while (known != at_fork->others.end() && known->stream < entry.stream) ++known;
      if (known != at_fork->others.end() && known->stream == entry.stream && known->at >= entry.at) continue;
      std::uint32_t& latest = latest_[entry.stream];
      if (latest == 0) heard_.push_back({entry.stream, 0});
      latest = std::max(latest, entry.at);
    }
  }
  for (Past::Entry& entry : heard_) entry.at = std::exchange(latest_[entry.stream], 0U);
  // Only now is it known what the joined streams' own joins cover.
  std::erase_if(heard_, [&](const Past::Entry& entry) {
    return is_joined(*states_[parent.stream].past, parent, {entry.stream, entry.at});
  });
}

void Order::meet(const std::vector<StreamId>& streams) {
  SharedPast all = copy_of(*state(streams.front()).past);
  for (const StreamId stream : streams) {
    all.own().merge(*state(stream).past);
    all.own().raise(stream, state(stream).now);
  }
  prune(all.own(), kNobody);
  for (const StreamId stream : streams) state(stream).past = all;
}

const Order::Absorbed* Order::join_of(Moment moment) const noexcept {
  if (moment.stream >= states_.size()) return nullptr;
  const State& joined = states_[moment.stream];
  if (joined.first.from == 0) return nullptr;
  if (moment.at <= joined.first.until) return &joined.first;
  const machine::CaseVector<Absorbed>& history = joined.later;
  const auto join = std::lower_bound(history.begin(), history.end(), moment.at,
                                     [](const Absorbed& a, std::uint32_t at) { return a.until < at; });
  return join == history.end() ? nullptr : &*join;
}

bool Order::is_joined(const Past& past, Moment self, Moment moment) const noexcept {
  while (const Absorbed* const join = join_of(moment)) {
    moment = {states_[moment.stream].parent, join->from};
    if (moment.stream == self.stream) return moment.at <= self.at;
    if (moment.stream < ranks_) return past.mains[moment.stream] >= moment.at;
  }
  return false;
}

bool Order::is_told(const Past& past, Moment self, Moment moment) const noexcept {
  if (moment.stream >= states_.size()) return false;
  const machine::CaseVector<Told>& told = states_[moment.stream].told;
  for (auto one = told.rbegin(); one != told.rend() && one->at >= moment.at; ++one)
    if (covers(past, self, one->by)) return true;  // of a stream less deep, so that this ends
  return false;
}

bool Order::covers(const Past& past, Moment self, Moment moment) const noexcept {
  for (;;) {
    if (moment.stream == self.stream) return moment.at <= self.at;
    if (moment.stream < ranks_) return past.mains[moment.stream] >= moment.at;
    if (past.find_other(moment.stream) >= moment.at || is_told(past, self, moment)) return true;
    const Absorbed* const join = join_of(moment);
    if (join == nullptr) return false;
    moment = {states_[moment.stream].parent, join->from};
  }
}

void Order::prune(Past& past, Moment self) const {
  const auto is_needless = [&](const Past::Entry& entry) {
    return is_joined(past, self, {entry.stream, entry.at});
  };
  past.others.erase(std::remove_if(past.others.begin(), past.others.end(), is_needless), past.others.end());
  past.prune_at = std::max<std::size_t>(16, 2 * past.others.size());
}

bool Order::knows(StreamId stream, Moment moment) {
  const State& knower = state(stream);
  return covers(*knower.past, {stream, knower.now}, moment);
}

}  // namespace cohort::check
