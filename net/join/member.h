// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/join/control_mesh.h>
#include <cohort/net/join/join_frame.h>
#include <cohort/net/join/join_state.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// Calls rank 0 at the state's address and proves who this process is, until it is taken or the moment comes.
/// Fills `secret` where rank 0 hands one over; `identity` is what is claimed. Errors: MissingRanks
/// (nobody there, or nobody who answers), AuthFailed, WorldSize, DuplicateRank, Mismatch, ProtocolError; all
/// with culprit 0.
Task<Socket> call_rank_0(const JoinState& state, std::optional<Secret>& secret, TimePoint until);

/// The side of all ranks but 0 of joining.
///
/// Threads: the engine's. Lifetime: `state` outlives run().
class Member : Immovable {
 public:
  explicit Member(JoinState& state) : state_(state), membership_(state.membership) {}

  /// Fills the state's membership. Errors: of call_rank_0(); what rank 0 told as the cause, its culprit
  /// included; DuplicateRank when the job at the address has all of its ranks, and no other one comes for
  /// kOtherJobTime; PeerDied when rank 0 ended; PeerSilent when it said nothing for kVerdictTime after the
  /// deadline.
  Task<> run();

  static constexpr Duration kOtherJobTime = std::chrono::seconds(2);

 private:
  Task<bool> attempt(TimePoint until);
  Task<Socket> call(std::optional<Secret>& secret, TimePoint until);
  Task<> join_through(Socket& rank_0);
  Task<> hear_table(Socket& rank_0);
  void take_table(std::span<const std::byte> records, const Socket& rank_0, Rank from);
  void take_neighbours(std::span<const std::byte> records, const Socket& rank_0);
  Task<> connect(Socket& rank_0);
  Task<> hear_go(Socket& rank_0);
  Task<JoinFrame> hear(Socket& rank_0);
  Task<> receive(Socket& rank_0, std::span<std::byte> bytes);
  void advertise_rank_0(const Socket& rank_0);

  JoinState& state_;
  Membership& membership_;
  std::vector<std::byte> table_;    ///< its records, if rank 0 has told them and this rank passes them on
  std::optional<Error> sent_away_;  ///< by a job that needs nobody, the last time
  bool is_sent_away_ = false;       ///< this time
  bool is_introduced_ = false;
};

}  // namespace cohort
