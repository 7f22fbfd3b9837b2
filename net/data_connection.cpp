// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/data_connection.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/net/connections.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

namespace cohort {
namespace {

constexpr int kAttempts = 5;
constexpr Duration kDialAgainInterval = std::chrono::milliseconds(50);
constexpr Duration kLongestDialAgainInterval = std::chrono::seconds(1);
/// As long as a collective may take, unless the user says otherwise: who waits for words has given up by
/// then.
constexpr Duration kPatienceWithBusy = std::chrono::minutes(10);

Identity identity_for(const Membership& membership, Purpose purpose, Path path) {
  const PeerInfo& self = membership.self();
  Identity identity;
  identity.job = membership.job;
  identity.rank = membership.rank;
  identity.world = membership.size;
  identity.incarnation = membership.incarnation;
  identity.pid = self.process;
  identity.purpose = purpose;
  identity.lane = path.lane;
  identity.group = path.group;
  identity.encryption = membership.encryption;
  return identity;
}

/// Control connections are made later only by those that did not make all of them while joining.
Service service_of(const Membership& membership) {
  return {.control = membership.is_sparse(), .data = true, .lanes = kConnectionsOfGroup};
}

/// What an attempt to connect has met.
enum class Met { nobody, refusal, peer };

bool is_without_way(int error_number) noexcept {
  return error_number == ENETUNREACH || error_number == EHOSTUNREACH || error_number == ETIMEDOUT ||
         error_number == ENETDOWN;
}

/// A host that is gone does not answer, and the kernel asks it for minutes.
Task<Socket> connect_within(Engine& engine, const Address& address, Duration longest, Met& met) {
  CancelScope* around = co_await current_scope();
  int error_number = 0;
  try {
    Task<Socket> connecting = Socket::connect(engine, address, &error_number);
    Task<Socket> timed = with_deadline(longest, std::move(connecting));
    Socket socket = co_await timed;
    met = Met::peer;
    co_return socket;
  } catch (const Error& error) {
    const bool is_callers = around != nullptr && around->is_cancelled();
    const bool is_late = error.kind() == ErrorKind::DeadlineExceeded && !is_callers;
    met = is_late || is_without_way(error_number) ? Met::nobody : Met::refusal;
    if (!is_late) throw;
  }
  throw Error(ErrorKind::LinkFault, fmt::format("connecting to {}: nothing answers", address.to_string()));
}

Task<Socket> connect_once(Engine& engine, const Membership& membership, Rank peer, Purpose purpose, Path path,
                          Met& met) {
  const PeerInfo& info = membership.peers[peer];
  const Callee callee{info.data_address.to_string(), peer, info.incarnation};
  const bool is_control = purpose == Purpose::control;
  const Duration longest = is_control ? membership.host_timeout : kPatienceWithBusy;
  Socket socket = co_await connect_within(engine, info.data_address, longest, met);
  socket.set_no_delay();
  if (is_control) socket.set_host_timeout(membership.host_timeout);
  // A peer that computes or loads its data answers when it looks at its engine again. That it is gone is told
  // over the control plane.
  const Identity mine = identity_for(membership, purpose, path);
  co_await authenticate_as_client(socket, membership.secret, mine, callee, std::nullopt);
  co_return socket;
}

/// What refuses a few times is not there. A control connection tells whether the peer lives: one who computes
/// again and again, and is too slow for the handshake by that, does, as far as anybody's patience goes. Where
/// there is no way, one may come back: connections that stand wait for that as long.
Task<Socket> connect_as(Engine& engine, const Membership& membership, Rank peer, Purpose purpose, Path path) {
  const TimePoint until = after(engine.now(), kPatienceWithBusy);
  TimePoint lost_at = after(engine.now(), membership.host_timeout);
  Duration interval = kDialAgainInterval;
  Met met = Met::nobody;
  std::string reason;
  for (int attempts = 0; attempts < kAttempts && engine.now() < std::min(until, lost_at);) {
    try {
      co_return co_await connect_once(engine, membership, peer, purpose, path, met);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::SystemError && error.kind() != ErrorKind::LinkFault) throw;
      reason = error.message();
    }
    const bool counts = met == Met::refusal || (met == Met::peer && purpose == Purpose::data);
    attempts += counts ? 1 : 0;
    co_await engine.sleep_for(interval);
    if (!counts) interval = std::min(2 * interval, kLongestDialAgainInterval);
    if (met != Met::nobody) lost_at = after(engine.now(), membership.host_timeout);
  }
  const bool is_there = met != Met::nobody && purpose == Purpose::control;
  const ErrorKind of_control = met == Met::peer ? ErrorKind::PeerSilent : ErrorKind::PeerAborted;
  throw Error(is_there ? of_control : ErrorKind::LinkFault,
              fmt::format("no {} connection to {}: {}", to_string(purpose), membership.peers[peer].describe(),
                          reason))
      .with_culprit(peer);
}

}  // namespace

Task<Socket> connect_control(Engine& engine, const Membership& membership, Rank peer) {
  return connect_as(engine, membership, peer, Purpose::control, {});
}

Task<Socket> connect_data(Engine& engine, const Membership& membership, Rank peer, Path path) {
  COHORT_ASSERT(peer < membership.size && peer != membership.rank && path.lane < kConnectionsOfGroup,
                "rank {} connects to rank {} of {}, lane {}", membership.rank, peer, membership.size,
                path.lane);
  const PeerInfo& info = membership.peers[peer];
  if (info.data_address.size_bytes() == 0)
    throw Error(
        ErrorKind::Unsupported,
        fmt::format("{} takes no TCP connections: it could listen nowhere, for want of a loopback interface "
                    "or of a port that it may use (COHORT_PORT_RANGE), as its log says (COHORT_DEBUG=info); "
                    "mend that, or use COHORT_TRANSPORT=shm",
                    info.describe()))
        .with_culprit(peer);
  co_return co_await connect_as(engine, membership, peer, Purpose::data, path);
}

DataAcceptor::DataAcceptor(Membership& membership)
    : membership_(membership),
      gate_(membership.data_listener, membership.secret, identity_for(membership, Purpose::data, {}),
            service_of(membership), *this),
      early_(membership.size) {}

Task<> DataAcceptor::serve() {
  if (membership_.data_listener.is_open()) co_await gate_.serve();
}

Task<Socket> DataAcceptor::take(Rank peer, Path path) {
  Slot& place = slot(peer, path);
  co_await place.arrived.wait();
  co_return std::move(place.socket);
}

bool DataAcceptor::wants(const Identity& caller) const noexcept {
  if (caller.purpose == Purpose::control) return static_cast<bool>(take_control_);
  return admitted_.contains({caller.rank, caller.group}) || early_[caller.rank].groups != 0;
}

Task<> DataAcceptor::welcome(Visitor visitor) {
  const PeerInfo& expected = membership_.peers[visitor.peer.rank];
  if (visitor.peer.incarnation != expected.incarnation) {
    log(LogLevel::warn, "a connection that says it is {} but is none that joined was closed",
        expected.describe());
    co_return;
  }
  const Rank peer = visitor.peer.rank;
  const Path path{visitor.peer.group, visitor.peer.lane};
  visitor.socket.set_no_delay();
  if (visitor.peer.purpose == Purpose::control) {
    take_control_(peer, std::move(visitor.socket));
    co_return;
  }
  if (admitted_.contains({peer, path.group}))
    keep(peer, path, std::move(visitor.socket));
  else
    keep_early(peer, path, std::move(visitor.socket));
}

void DataAcceptor::keep(Rank peer, Path path, Socket socket) {
  Slot& place = slot(peer, path);
  place.socket = std::move(socket);
  if (place.arrived.untaken_posts() == 0) place.arrived.post();
}

/// Each group that is being made may have as many as it has lanes. What is of none of them gives way, as far
/// as that is known: an invite may come after a connection. Numbers go up, so that of the oldest goes first.
void DataAcceptor::keep_early(Rank peer, Path path, Socket socket) {
  Early& early = early_[peer];
  early.connections[path] = std::move(socket);
  if (early.connections.size() <= early.groups * kConnectionsOfGroup) return;
  const auto is_of_none = [&](const auto& one) { return !is_making_(peer, one.first.group); };
  const auto oldest = std::ranges::find_if(early.connections, is_of_none);
  if (oldest != early.connections.end()) early.connections.erase(oldest);
}

void DataAcceptor::end_making(Rank peer) noexcept {
  Early& early = early_[peer];
  COHORT_ASSERT(early.groups != 0, "no group is being made with rank {}", peer);
  if (--early.groups == 0) early.connections.clear();
}

void DataAcceptor::admit(Rank peer, GroupNumber group) {
  admitted_.insert({peer, group});
  auto& connections = early_[peer].connections;
  const auto first = connections.lower_bound({group, 0});
  const auto last = connections.upper_bound({group, kConnectionsOfGroup});
  for (auto one = first; one != last; ++one) keep(peer, one->first, std::move(one->second));
  connections.erase(first, last);
}

void DataAcceptor::forget(Rank peer, GroupNumber group) noexcept {
  refuse(peer, group);
  slots_.erase(slots_.lower_bound({peer, {group, 0}}),
               slots_.upper_bound({peer, {group, kConnectionsOfGroup}}));
}

DataAcceptor::Slot& DataAcceptor::slot(Rank peer, Path path) {
  COHORT_ASSERT(peer < membership_.size && path.lane < kConnectionsOfGroup, "rank {} of {}, lane {}", peer,
                membership_.size, path.lane);
  return slots_[{peer, path}];
}

}  // namespace cohort
