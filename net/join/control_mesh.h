// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/gate.h>
#include <cohort/net/join/join_state.h>
#include <cohort/notify/notify.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace cohort {

/// Fills Membership::control: this rank calls every lower one and is called by every higher one, over an
/// abstract Unix socket within a host and over TCP otherwise, each connection authenticated both ways.
///
/// Where the ranks are many, neighbours connect alone. Down the binomial tree, over these connections, each
/// rank passes on the table that rank 0 has told its own children, until these have said that they have it.
///
/// The connection to rank 0 that joining began with is the control connection too, except where ranks of one
/// host met by TCP: descriptors travel over control connections within a host, so these get one of their own.
class ControlMesh final : private Gate::Handler, Immovable {
 public:
  /// Takes the table that a neighbour has passed on. Throws ProtocolError for what rank 0 would not write.
  using TakeTable = std::function<void(std::span<const std::byte> records, Rank from)>;

  /// Everybody's entry in the table is known by now; or those of the neighbours, and then `take_table` is
  /// called before connect() returns. `records`: the table as it is passed on, if it is known and is to be.
  explicit ControlMesh(JoinState& state, std::vector<std::byte> records = {}, TakeTable take_table = {});

  /// Returns when all connections stand. A peer that is not reached is tried again until the scope's
  /// deadline: rank 0 knows whether it has died. Errors: of authenticate_as_client(), where another attempt
  /// would not help; PeerDied of who was to pass on the table, and rank 0 says nothing of it; ResourceLimit
  /// where this process may not have as many descriptors as that takes.
  Task<> connect();

  /// Whom it still waits for, ascending: to be connected with, to hear the table from, to take it.
  [[nodiscard]] std::vector<Rank> missing() const;

  /// Whether the connection of the joining itself serves this pair, of which one is rank 0.
  [[nodiscard]] static bool is_served_by_joining(const JoinState& state, Rank peer);

 private:
  void expect(std::span<const Rank> peers);
  void expect_all();
  void make_room();
  void give_way_if_oversubscribed();
  Task<> connect_in_turn();
  Task<> connect_expected();
  Task<> hear_table();
  Task<bool> receive_table(Rank parent, std::span<std::byte> records);
  Task<> call_parent_again(Rank parent);
  Task<> pass_table_on();
  Task<> pass_table_on_to(Rank child);
  Task<> hear_taken(Rank child);
  void let_go(Rank child);
  Task<> call_one_after_the_other();
  Task<> call(Rank peer);
  Task<Socket> call_once(Rank peer);
  Task<> welcome(Visitor visitor) override;
  void connected(Rank peer, Socket socket) noexcept;
  void take_again(Rank child, Socket socket);
  [[nodiscard]] bool is_pair_served_by_joining(Rank peer) const;
  [[nodiscard]] bool is_neighbour(Rank peer) const;
  [[nodiscard]] bool expects_calls(bool from_own_host) const;

  JoinState& state_;
  std::vector<std::byte> records_;
  const TakeTable take_table_;
  bool is_table_known_;
  bool awaits_table_ = false;
  bool passes_table_on_ = false;
  std::vector<Rank> without_table_;    ///< children that have not said that they have it
  std::deque<Rank> to_tell_;           ///< those that it is to be sent to
  std::set<Rank> in_use_;              ///< those that it is being sent to, or whose word is waited for
  std::map<Rank, Socket> come_again_;  ///< of one of these, which has another connection now
  Notify has_news_of_child_;
  Gate own_host_;
  Gate other_hosts_;
  std::vector<bool> is_missing_;
  std::size_t missing_ = 0;
  std::vector<Rank> to_call_;  ///< the next one last
  Notify has_connected_;
  TaskScope* scope_ = nullptr;
};

}  // namespace cohort
