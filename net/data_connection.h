// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/gate.h>
#include <cohort/net/membership.h>

#include <cohort/notify/notify.h>

#include <map>
#include <utility>

namespace cohort {

/// An authenticated TCP connection to a peer's data listener, for one path, as this rank numbers it. The peer
/// takes it with DataAcceptor::take().
///
/// Errors: LinkFault when it cannot be reached after a few attempts, Unsupported when it takes no TCP
/// connections, AuthFailed, Mismatch (it was restarted); all with the peer as culprit. A peer that is there
/// and does not answer is waited for: the deadline is the caller's.
Task<Socket> connect_data(Engine& engine, const Membership& membership, Rank peer, Path path);

/// Accepts on Membership::data_listener and keeps each authenticated connection for whoever takes it: at most
/// one per peer and path, the latest. Strangers are turned away and disturb nobody.
///
/// Threads: the engine's. Lifetime: the membership outlives serve(), and both outlive take().
class DataAcceptor final : private Gate::Handler, Immovable {
 public:
  explicit DataAcceptor(Membership& membership);

  /// Until its scope is cancelled, which it throws as the others do. Nothing to do without a listener:
  /// returns.
  Task<> serve();

  /// Waits for the peer's connection. One waiter at a time for each peer and path.
  Task<Socket> take(Rank peer, Path path);
  /// Closes what nobody has taken of a path that is of no use any more, and forgets it. Nobody waits for it.
  void forget(Rank peer, Path path) noexcept { slots_.erase({peer, path}); }

 private:
  struct Slot {
    Socket socket;
    Notify arrived;
  };

  Task<> welcome(Visitor visitor) override;
  [[nodiscard]] Slot& slot(Rank peer, Path path);

  Membership& membership_;
  Gate gate_;
  std::map<std::pair<Rank, Path>, Slot> slots_;
};

}  // namespace cohort
