// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/control_mesh.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr Service kControlOnly{.control = true};
constexpr Duration kRetryInterval = std::chrono::milliseconds(20);
/// Connections that a rank makes at a time: where hundreds of ranks share a core, each of them is soon
/// through its handshake, and none runs out of the time for it.
constexpr std::size_t kCallsAtOnce = 8;

}  // namespace

ControlMesh::ControlMesh(JoinState& state)
    : state_(state),
      own_host_(state.control_listener, state.membership.secret, state.identity_for(Purpose::control),
                kControlOnly, *this),
      other_hosts_(state.membership.data_listener, state.membership.secret,
                   state.identity_for(Purpose::control), kControlOnly, *this),
      is_missing_(state.membership.size, true) {
  is_missing_[state.membership.rank] = false;
  for (Rank peer = 0; peer < state.membership.size; ++peer) {
    const bool is_pair_of_0 = peer != state.membership.rank && (peer == 0 || state.membership.rank == 0);
    if (is_pair_of_0 && is_served_by_joining(state, peer)) is_missing_[peer] = false;
  }
}

bool ControlMesh::is_served_by_joining(const JoinState& state, Rank peer) {
  return !state.meets_by_tcp() || !state.membership.shares_host(peer);
}

std::vector<Rank> ControlMesh::missing() const {
  std::vector<Rank> ranks;
  for (Rank peer = 0; peer < is_missing_.size(); ++peer)
    if (is_missing_[peer]) ranks.push_back(peer);
  return ranks;
}

bool ControlMesh::expects_calls(bool from_own_host) const {
  return std::ranges::any_of(missing(), [&](Rank peer) {
    return peer > state_.membership.rank && state_.membership.shares_host(peer) == from_own_host;
  });
}

Task<> ControlMesh::connect() {
  CancelScope* around = co_await current_scope();
  const std::vector<Rank> peers = missing();
  make_room();
  give_way_if_oversubscribed();
  if (peers.empty()) co_return;
  TaskScope scope(around);
  scope_ = &scope;
  if (expects_calls(true)) scope.spawn(own_host_.serve());
  if (expects_calls(false)) scope.spawn(other_hosts_.serve());
  // The nearest first, so that not all ranks begin with the same one.
  for (const Rank peer : peers)
    if (peer < state_.membership.rank) to_call_.push_back(peer);
  for (std::size_t i = 0; i < kCallsAtOnce; ++i) scope.spawn(call_one_after_the_other());
  co_await scope.join();
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
  const std::size_t least = missing().size() + per_process * watched + kOwn;
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
  is_missing_[peer] = false;
  if (missing().empty()) scope_->cancel();
}

Task<> ControlMesh::call(Rank peer) {
  for (;;) {
    try {
      Socket socket = co_await call_once(peer);
      connected(peer, std::move(socket));
      co_return;
    } catch (const Error& error) {
      const bool may_pass = error.kind() == ErrorKind::SystemError || error.kind() == ErrorKind::LinkFault;
      if (!may_pass) throw;
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
  if (peer > state_.membership.rank && visitor.peer.incarnation == expected.incarnation)
    connected(peer, std::move(visitor.socket));
  else
    log(LogLevel::warn, "a control connection that says it is {} but is none that joined was closed",
        expected.describe());
  co_return;
}

}  // namespace cohort
