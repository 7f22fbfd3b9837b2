// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/gate.h>
#include <cohort/net/join/join_state.h>

namespace cohort {

/// Fills Membership::control: this rank calls every lower one and is called by every higher one, over an
/// abstract Unix socket within a host and over TCP otherwise, each connection authenticated both ways.
///
/// The connection to rank 0 that joining began with is the control connection too, except where ranks of one
/// host met by TCP: descriptors travel over control connections within a host, so these get one of their own.
class ControlMesh final : private Gate::Handler, Immovable {
 public:
  /// Everybody's entry in the table is known by now.
  explicit ControlMesh(JoinState& state);

  /// Returns when all connections stand. A peer that is not reached is tried again until the scope's
  /// deadline: rank 0 knows whether it has died. Errors: of authenticate_as_client(), where another attempt
  /// would not help; ResourceLimit where this process may not have as many descriptors as that takes.
  Task<> connect();

  /// Whom it still waits for, ascending.
  [[nodiscard]] std::vector<Rank> missing() const;

  /// Whether the connection of the joining itself serves this pair, of which one is rank 0.
  [[nodiscard]] static bool is_served_by_joining(const JoinState& state, Rank peer);

 private:
  void make_room();
  void give_way_if_oversubscribed();
  Task<> call_one_after_the_other();
  Task<> call(Rank peer);
  Task<Socket> call_once(Rank peer);
  Task<> welcome(Visitor visitor) override;
  void connected(Rank peer, Socket socket) noexcept;
  [[nodiscard]] bool expects_calls(bool from_own_host) const;

  JoinState& state_;
  Gate own_host_;
  Gate other_hosts_;
  std::vector<bool> is_missing_;
  std::vector<Rank> to_call_;  ///< the next one last
  TaskScope* scope_ = nullptr;
};

}  // namespace cohort
