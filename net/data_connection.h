// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/gate.h>
#include <cohort/net/membership.h>

#include <cohort/notify/notify.h>

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace cohort {

/// An authenticated TCP connection to a peer's data listener, for one path, as this rank numbers it. The peer
/// takes it with DataAcceptor::take().
///
/// Errors: LinkFault when it refuses a few times, or no way leads there for as long as a host may be silent
/// (Membership::host_timeout), Unsupported when it takes no TCP
/// connections, AuthFailed, Mismatch (it was restarted); all with the peer as culprit. A peer that is there
/// and does not answer is waited for: the deadline is the caller's.
Task<Socket> connect_data(Engine& engine, const Membership& membership, Rank peer, Path path);
/// A control connection to a rank of another host, over the same listener, after the joining. PeerAborted
/// when it refuses: it has ended or left; PeerSilent when it takes calls for ten minutes, and ends no
/// handshake.
Task<Socket> connect_control(Engine& engine, const Membership& membership, Rank peer);

/// Accepts on Membership::data_listener and keeps each authenticated connection for whoever takes it: at most
/// one per peer and path, the latest. Strangers, and connections of a group that is over here, are turned
/// away and disturb nobody.
///
/// A peer may be through with making a group, and connect, before this rank is: what comes while groups are
/// being made with that peer is kept until none is, or until it is admitted. Threads: the engine's. Lifetime:
/// the membership outlives serve(), and both outlive take().
class DataAcceptor final : private Gate::Handler, Immovable {
 public:
  explicit DataAcceptor(Membership& membership);

  /// Until its scope is cancelled, which it throws as the others do. Nothing to do without a listener:
  /// returns.
  Task<> serve();

  /// Whether a group, as the peer numbers it, is known to be one that is being made with it.
  using IsMaking = std::function<bool(Rank peer, GroupNumber group)>;
  void set_is_making(IsMaking is_making) { is_making_ = std::move(is_making); }

  /// Takes the control connections that peers make after the joining, where there are any.
  using TakeControl = std::function<void(Rank peer, Socket socket)>;
  void set_take_control(TakeControl take) { take_control_ = std::move(take); }

  /// This rank has begun to make a group with that peer, and is through with it.
  void begin_making(Rank peer) noexcept { ++early_[peer].groups; }
  void end_making(Rank peer) noexcept;

  /// From now on the peer's connections for that group, as it numbers it, are kept; those that came early,
  /// too.
  void admit(Rank peer, GroupNumber group);
  /// No longer. What has come stays until it is forgotten. Idempotent.
  void refuse(Rank peer, GroupNumber group) noexcept { admitted_.erase({peer, group}); }
  /// Refuses, and closes what nobody has taken. Nobody waits for one.
  void forget(Rank peer, GroupNumber group) noexcept;

  /// Waits for the peer's connection, which is admitted. One waiter at a time for each peer and path.
  Task<Socket> take(Rank peer, Path path);

 private:
  struct Slot {
    Socket socket;
    Notify arrived;
  };
  /// Of one peer, while groups are being made with it.
  struct Early {
    std::size_t groups = 0;  ///< so many
    std::map<Path, Socket> connections;
  };

  [[nodiscard]] bool wants(const Identity& caller) const noexcept override;
  Task<> welcome(Visitor visitor) override;
  void keep(Rank peer, Path path, Socket socket);
  void keep_early(Rank peer, Path path, Socket socket);
  [[nodiscard]] Slot& slot(Rank peer, Path path);

  Membership& membership_;
  Gate gate_;
  std::set<std::pair<Rank, GroupNumber>> admitted_;
  std::map<std::pair<Rank, Path>, Slot> slots_;
  std::vector<Early> early_;  ///< by peer
  TakeControl take_control_;
  IsMaking is_making_ = [](Rank, GroupNumber) { return false; };
};

}  // namespace cohort
