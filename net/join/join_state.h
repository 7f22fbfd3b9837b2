// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/immovable.h>
#include <cohort/net/auth/identity.h>
#include <cohort/net/control_graph.h>
#include <cohort/net/join/join_options.h>
#include <cohort/net/membership.h>

#include <string>
#include <vector>

namespace cohort {

/// How often the log says who has not come yet.
inline constexpr Duration kReportInterval = std::chrono::seconds(10);

/// What one process knows while it joins, and the membership that comes out of it.
struct JoinState : Immovable {
  JoinState(Engine& on, JoinOptions asked);

  Engine& engine;
  const JoinOptions options;
  const Address address;    ///< of rank 0
  const std::string where;  ///< the same for people
  const TimePoint started;
  const TimePoint deadline;
  const Identity identity;           ///< purpose: join
  bool is_secret_made_here = false;  ///< rank 0 at a Unix address, and nobody gave one

  Membership membership;      ///< filled as far as joining has come
  Listener control_listener;  ///< abstract Unix socket for the control connections of this host

  // As rank 0 decides:
  ControlLinks links = ControlLinks::all;
  std::vector<Rank> neighbours;  ///< of this rank, ascending; none where all are connected at once

  [[nodiscard]] bool meets_by_tcp() const { return !address.is_unix(); }
  /// Whole seconds, for texts.
  [[nodiscard]] std::string elapsed() const;
  [[nodiscard]] Identity identity_for(Purpose purpose) const;

  /// Listens for control connections of this host's ranks and for data connections, and fills in the own
  /// entry of the table. `near` is an address of this host that the others can reach.
  void listen(const Address& near);
};

/// Where a rank takes control connections of its host: an abstract Unix socket, named after what is random
/// about it.
[[nodiscard]] Address control_address(const PeerInfo& peer);

/// "0, 2-4, 7".
[[nodiscard]] std::string list_of_ranks(const std::vector<Rank>& ascending);

}  // namespace cohort
