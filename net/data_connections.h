// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/data_connection.h>
#include <cohort/net/transport.h>

#include <optional>
#include <span>
#include <utility>

namespace cohort {

/// The data connections of one communicator, whatever its transports make of them: of the one that was
/// joined, or of a group in it, whose paths are its own and whose listener is the root's.
///
/// Threads: the engine's. Lifetime: outlives the transports, and the root's outlive their groups'. Errors:
/// those of connect_data(), with the culprit's rank in this communicator.
class DataConnections : Immovable {
 public:
  /// `root` and `place`: of a group, else null.
  DataConnections(Engine& engine, Membership& membership, DataConnections* root, const GroupPlace* place);
  ~DataConnections();

  /// Of the root: as DataAcceptor's.
  void set_is_making(DataAcceptor::IsMaking is_making) { acceptor_->set_is_making(std::move(is_making)); }

  void set_take_control(DataAcceptor::TakeControl take) { acceptor_->set_take_control(std::move(take)); }

  /// While it lives, what peers connect for groups that this rank is making with them is kept. `root`: that
  /// of the communicator that was joined, whose ranks these are.
  class Making : Immovable {
   public:
    Making(DataConnections& root, std::span<const Rank> ranks) noexcept;
    ~Making();

   private:
    DataConnections& root_;
    const std::span<const Rank> ranks_;
  };

  /// Accepts from now on, until its scope is cancelled. Called by every transport that needs it, and begins
  /// once; a group's root has begun already.
  void start(TaskScope& services);
  /// Turns away what comes from now on. Idempotent.
  void shutdown() noexcept;

  /// One that the higher rank makes and the lower one takes: both run the same schedule, so both come here.
  [[nodiscard]] Task<Socket> open(Rank peer, Lane lane);
  /// One that this rank makes.
  [[nodiscard]] Task<Socket> call(Rank peer, Lane lane);
  /// One that the peer makes.
  [[nodiscard]] Task<Socket> wait_for_call(Rank peer, Lane lane);

 private:
  [[nodiscard]] DataConnections& root() noexcept { return root_ == nullptr ? *this : *root_; }
  [[nodiscard]] Rank rank_in_root(Rank rank) const noexcept {
    return place_ == nullptr ? rank : place_->ranks[rank];
  }
  /// As that rank numbers it.
  [[nodiscard]] GroupNumber number(Rank rank) const noexcept {
    return place_ == nullptr ? GroupNumber{0} : place_->numbers[rank];
  }

  Engine& engine_;
  Membership& membership_;
  DataConnections* const root_;           ///< null: this is it
  const GroupPlace* const place_;         ///< of a group
  std::optional<DataAcceptor> acceptor_;  ///< the root's
  bool is_accepting_ = false;
};

}  // namespace cohort
