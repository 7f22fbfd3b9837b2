// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/gate.h>
#include <cohort/net/membership.h>

#include <cohort/notify/notify.h>

#include <vector>

namespace cohort {

/// An authenticated TCP connection to a peer's data listener, for one lane. The peer takes it with
/// DataAcceptor::take().
///
/// Errors: LinkFault when it cannot be reached after a few attempts, Unsupported when it takes no TCP
/// connections, AuthFailed, Mismatch (it was restarted); all with the peer as culprit. A peer that is there
/// and does not answer is waited for: the deadline is the caller's.
Task<Socket> connect_data(Engine& engine, const Membership& membership, Rank peer, Lane lane);

/// Accepts on Membership::data_listener and keeps each authenticated connection for whoever takes it: at most
/// one per peer and lane, the latest. Strangers are turned away and disturb nobody.
///
/// Threads: the engine's. Lifetime: the membership outlives serve(), and both outlive take().
class DataAcceptor final : private Gate::Handler, Immovable {
 public:
  explicit DataAcceptor(Membership& membership);

  /// Until its scope is cancelled, which it throws as the others do. Nothing to do without a listener:
  /// returns.
  Task<> serve();

  /// Waits for the peer's connection. One waiter at a time for each peer and lane.
  Task<Socket> take(Rank peer, Lane lane);

 private:
  struct Slot {
    Socket socket;
    Notify arrived;
  };

  Task<> welcome(Visitor visitor) override;
  [[nodiscard]] Slot& slot(Rank peer, Lane lane);

  Membership& membership_;
  Gate gate_;
  std::vector<Slot> slots_;
};

}  // namespace cohort
