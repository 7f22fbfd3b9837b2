// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/control_mesh.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/net/join/join_frame.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace cohort {
namespace {

constexpr Service kControlOnly{.control = true};
constexpr Duration kRetryInterval = std::chrono::milliseconds(20);
/// Connections that a rank makes at a time: where hundreds of ranks share a core, each of them is soon
/// through its handshake, and none runs out of the time for it.
constexpr std::size_t kCallsAtOnce = 8;
/// Rank 0 hears of a death as well, and tells everybody: so long we wait for that.
constexpr Duration kVerdictTime = std::chrono::seconds(2);
/// What a child says to its parent once it has the table.
constexpr std::byte kTaken{0x74};

/// What another connection may not have.
bool may_pass(const Error& error) {
  return error.kind() == ErrorKind::SystemError || error.kind() == ErrorKind::LinkFault;
}

}  // namespace

ControlMesh::ControlMesh(JoinState& state, std::vector<std::byte> records, TakeTable take_table)
    : state_(state),
      records_(std::move(records)),
      take_table_(std::move(take_table)),
      is_table_known_(state.links == ControlLinks::all || !records_.empty()),
      own_host_(state.control_listener, state.membership.secret, state.identity_for(Purpose::control),
                kControlOnly, *this),
      other_hosts_(state.membership.data_listener, state.membership.secret,
                   state.identity_for(Purpose::control), kControlOnly, *this),
      is_missing_(state.membership.size, false) {
  if (state.links == ControlLinks::all)
    expect_all();
  else
    expect(state.neighbours);
}

bool ControlMesh::is_served_by_joining(const JoinState& state, Rank peer) {
  const bool is_kept = state.links == ControlLinks::all || std::ranges::binary_search(state.neighbours, peer);
  return is_kept && (!state.meets_by_tcp() || !state.membership.shares_host(peer));
}

bool ControlMesh::is_pair_served_by_joining(Rank peer) const {
  return (peer == 0 || state_.membership.rank == 0) && is_served_by_joining(state_, peer);
}

bool ControlMesh::is_neighbour(Rank peer) const {
  return std::ranges::binary_search(state_.neighbours, peer);
}

void ControlMesh::expect(std::span<const Rank> peers) {
  const Membership& membership = state_.membership;
  for (const Rank peer : peers) {
    const bool is_there = membership.control[peer].is_open() || is_pair_served_by_joining(peer);
    if (peer == membership.rank || is_there || is_missing_[peer]) continue;
    is_missing_[peer] = true;
    ++missing_;
  }
}

void ControlMesh::expect_all() {
  std::vector<Rank> all(state_.membership.size);
  std::iota(all.begin(), all.end(), Rank{0});
  expect(all);
}

std::vector<Rank> ControlMesh::missing() const {
  std::vector<Rank> ranks;
  for (Rank peer = 0; peer < is_missing_.size(); ++peer)
    if (is_missing_[peer]) ranks.push_back(peer);
  if (awaits_table_) ranks.push_back(*ControlGraph::parent_of(state_.membership.rank));
  std::ranges::copy_if(without_table_, std::back_inserter(ranks), [this](Rank child) {
    return std::ranges::find(to_tell_, child) == to_tell_.end();  // else it waits itself
  });
  std::ranges::sort(ranks);
  return ranks;
}

/// Who calls from another host is not known before the table.
bool ControlMesh::expects_calls(bool from_own_host) const {
  if (!from_own_host && state_.links != ControlLinks::all) return true;
  return std::ranges::any_of(missing(), [&](Rank peer) {
    return peer > state_.membership.rank && state_.membership.shares_host(peer) == from_own_host;
  });
}

Task<> ControlMesh::connect() {
  CancelScope* around = co_await current_scope();
  make_room();
  give_way_if_oversubscribed();
  if (missing_ == 0 && state_.links == ControlLinks::all) co_return;
  TaskScope scope(around);
  scope_ = &scope;
  if (expects_calls(true)) scope.spawn(own_host_.serve());
  if (expects_calls(false)) scope.spawn(other_hosts_.serve());
  scope.spawn(connect_in_turn());
  co_await scope.join();
}

Task<> ControlMesh::connect_in_turn() {
  co_await connect_expected();
  if (state_.links != ControlLinks::all) {
    if (!is_table_known_) co_await hear_table();
    co_await pass_table_on();
  }
  scope_->cancel();
}

Task<> ControlMesh::connect_expected() {
  // The nearest first, so that not all ranks begin with the same one.
  for (const Rank peer : missing())
    if (peer < state_.membership.rank) to_call_.push_back(peer);
  for (std::size_t i = 0; i < kCallsAtOnce; ++i) scope_->spawn(call_one_after_the_other());
  while (missing_ != 0) co_await has_connected_.wait();
}

/// A connection that is lost amid the table is made once more. If it is the parent that has ended, rank 0
/// hears of that as well, and tells all the same cause.
Task<> ControlMesh::hear_table() {
  const Rank parent = *ControlGraph::parent_of(state_.membership.rank);
  std::vector<std::byte> records(state_.membership.size * kPeerRecordBytes);
  awaits_table_ = true;
  for (bool came = false; !came;) {
    const bool is_whole = co_await receive_table(parent, records);
    came = is_whole;
    if (!came) co_await call_parent_again(parent);
  }
  awaits_table_ = false;
  is_table_known_ = true;
  records_ = std::move(records);
}

/// False: its connection was lost.
Task<bool> ControlMesh::receive_table(Rank parent, std::span<std::byte> records) {
  Socket& socket = state_.membership.control[parent];
  try {
    const bool came = co_await socket.receive(records);
    if (!came) co_return false;
    take_table_(records, parent);
    co_await socket.send(std::span(&kTaken, 1));
    co_return true;
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    log(LogLevel::debug, "hearing the table from rank {}: {}", parent, error.message());
  }
  co_return false;
}

Task<> ControlMesh::call_parent_again(Rank parent) {
  CancelScope* around = co_await current_scope();
  try {
    co_await state_.engine.sleep_for(kRetryInterval);
    Task<> calling = call(parent);
    Task<> timed = with_deadline(kVerdictTime, std::move(calling));
    co_await timed;
    co_return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::DeadlineExceeded || around->is_cancelled()) throw;
  }
  throw Error(ErrorKind::PeerDied,
              fmt::format("{} ended before it had passed on the table of ranks; see what it printed, then "
                          "start all ranks again",
                          state_.membership.peers[parent].describe()))
      .with_culprit(parent);
}

/// Until all children have said that they have it: who has lost its connection meanwhile comes again. Rank 0
/// has told its own while it told all others of their neighbours.
Task<> ControlMesh::pass_table_on() {
  const Membership& membership = state_.membership;
  if (membership.rank == 0) co_return;
  without_table_ = ControlGraph::children_of(membership.rank, membership.size);
  std::ranges::copy(without_table_, std::back_inserter(to_tell_));
  passes_table_on_ = true;
  while (!without_table_.empty()) {
    if (to_tell_.empty()) {
      co_await has_news_of_child_.wait();
      continue;
    }
    const Rank child = to_tell_.front();
    to_tell_.pop_front();
    co_await pass_table_on_to(child);
  }
}

/// One after the other, so that who has the most ranks below it has it first.
Task<> ControlMesh::pass_table_on_to(Rank child) {
  in_use_.insert(child);
  bool is_sent = false;
  try {
    co_await state_.membership.control[child].send(records_);
    is_sent = true;
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    log(LogLevel::debug, "passing the table on to rank {}: {}", child, error.message());
  }
  if (is_sent)
    scope_->spawn(hear_taken(child));
  else
    let_go(child);
}

Task<> ControlMesh::hear_taken(Rank child) {
  std::byte word{};
  bool is_taken = false;
  try {
    const bool came = co_await state_.membership.control[child].receive(std::span(&word, 1));
    is_taken = came && word == kTaken;
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    log(LogLevel::debug, "rank {} did not say that it has the table: {}", child, error.message());
  }
  if (is_taken) std::erase(without_table_, child);
  let_go(child);
}

/// Its connection is lost, or it has the table. One that ended is seen by rank 0.
void ControlMesh::let_go(Rank child) {
  in_use_.erase(child);
  const auto again = come_again_.find(child);
  if (again != come_again_.end()) {
    Socket socket = std::move(again->second);
    come_again_.erase(again);
    take_again(child, std::move(socket));
  }
  if (has_news_of_child_.untaken_posts() == 0) has_news_of_child_.post();
}

/// A child that gave its first connection up, or lost it, is to have the table through the one that it has
/// now; what is under way through the other one ends before that goes.
void ControlMesh::take_again(Rank child, Socket socket) {
  if (in_use_.contains(child)) {
    come_again_[child] = std::move(socket);
    state_.membership.control[child].shutdown();
    return;
  }
  connected(child, std::move(socket));
  if (std::ranges::find(without_table_, child) == without_table_.end()) without_table_.push_back(child);
  if (std::ranges::find(to_tell_, child) == to_tell_.end()) to_tell_.push_back(child);
  if (has_news_of_child_.untaken_posts() == 0) has_news_of_child_.post();
}

/// For what this rank will have open as long as the communicator lives; and, since nobody knows how far they
/// have come, for as much of every other rank of this process.
void ControlMesh::make_room() {
  const Membership& membership = state_.membership;
  const PeerInfo& self = membership.self();
  std::size_t watched = 0;  // a process each, and its doorbell where that is a descriptor
  std::size_t beside = 1;
  for (Rank peer = 0; peer < membership.size; ++peer) {
    if (peer == membership.rank || !membership.shares_host(peer)) continue;
    (membership.peers[peer].process == self.process ? beside : watched) += 1;
  }
  const std::size_t per_process = state_.engine.driver().has_futex() ? 1 : 2;
  constexpr std::size_t kOwn = 4;  // segment, doorbell, what is being received
  const std::size_t least = missing_ + per_process * watched + kOwn;
  const std::size_t of_one = membership.size + per_process * watched + kOwn;
  const std::size_t gates = (expects_calls(true) ? 1 : 0) + (expects_calls(false) ? 1 : 0);
  const std::size_t of_strangers = gates * Gate::kPlacesBeside;  // a rank's place becomes its connection
  const std::string what_for =
      fmt::format("rank {} in '{}' of {} ranks, {} of them on this host,", membership.rank, membership.name,
                  membership.size, watched + beside);
  const std::size_t room = state_.engine.platform().make_room_for_descriptors(
      least, least + (beside - 1) * of_one + of_strangers, what_for);
  const std::size_t left = room - std::min(room, least);
  for (Gate* const gate : {&own_host_, &other_hosts_})
    gate->limit_places_beside(left / (beside * std::max<std::size_t>(gates, 1)));
}

/// From here on, rather than when all stand: every step waits for somebody who wants this core.
void ControlMesh::give_way_if_oversubscribed() {
  const Membership& membership = state_.membership;
  if (membership.engines_per_core() > 1) state_.engine.set_oversubscribed(true);
  if (membership.ranks_of_host() < membership.size) state_.engine.expect_other_hosts();
}

Task<> ControlMesh::call_one_after_the_other() {
  while (!to_call_.empty()) {
    const Rank peer = to_call_.back();
    to_call_.pop_back();
    co_await call(peer);
  }
}

void ControlMesh::connected(Rank peer, Socket socket) noexcept {
  socket.set_no_delay();
  state_.membership.control[peer] = std::move(socket);
  if (!is_missing_[peer]) return;
  is_missing_[peer] = false;
  if (--missing_ == 0 && has_connected_.untaken_posts() == 0) has_connected_.post();
}

Task<> ControlMesh::call(Rank peer) {
  for (;;) {
    try {
      Socket socket = co_await call_once(peer);
      connected(peer, std::move(socket));
      co_return;
    } catch (const Error& error) {
      if (!may_pass(error)) throw;
      log(LogLevel::debug, "control connection to rank {}: {}", peer, error.message());
    }
    co_await state_.engine.sleep_for(kRetryInterval);
  }
}

Task<Socket> ControlMesh::call_once(Rank peer) {
  const PeerInfo& info = state_.membership.peers[peer];
  const Address address = state_.membership.shares_host(peer) ? control_address(info) : info.data_address;
  Socket socket = co_await Socket::connect(state_.engine, address);
  if (!is_own_user(socket))
    throw Error(ErrorKind::AuthFailed,
                fmt::format("{} is answered for by another user at {}", info.describe(), address.to_string()))
        .with_culprit(peer);
  const Callee callee{address.to_string(), peer, info.incarnation};
  const Identity mine = state_.identity_for(Purpose::control);
  co_await authenticate_as_client(socket, state_.membership.secret, mine, callee);
  co_return socket;
}

Task<> ControlMesh::welcome(Visitor visitor) {
  const Rank peer = visitor.peer.rank;
  const PeerInfo& expected = state_.membership.peers[peer];
  const bool is_wanted = state_.links == ControlLinks::all || is_neighbour(peer);
  const bool is_called = is_wanted && peer > state_.membership.rank;
  if (!is_called || visitor.peer.incarnation != expected.incarnation)
    log(LogLevel::warn, "a control connection that says it is {} but is none that joined was closed",
        expected.describe());
  else if (passes_table_on_ && ControlGraph::parent_of(peer) == state_.membership.rank)
    take_again(peer, std::move(visitor.socket));
  else
    connected(peer, std::move(visitor.socket));
  co_return;
}

}  // namespace cohort
