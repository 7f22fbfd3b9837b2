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
  if (peers.empty()) co_return;
  TaskScope scope(around);
  scope_ = &scope;
  if (expects_calls(true)) scope.spawn(own_host_.serve());
  if (expects_calls(false)) scope.spawn(other_hosts_.serve());
  for (const Rank peer : peers)
    if (peer < state_.membership.rank) scope.spawn(call(peer));
  co_await scope.join();
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
