// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/net/host/host_group.h>

namespace cohort {

/// How the ranks' data comes into their arrival slots: whole with the announcement, or, where others wait for
/// it, in pieces that they read while the rest is copied. What a rank gives to itself alone does not come.
///
/// Threads: the engine's. Lifetime: the arrival's.
class SlotFilling : Immovable {
 public:
  /// What is copied into a slot between two looks of those who read it. With less, looking costs more than
  /// reading early saves; with more, readers wait longer for the first piece.
  static constexpr std::size_t kPieceBytes = 8192;

  SlotFilling(Engine& engine, const Membership& membership, host::HostGroup& group,
              const RunningOperation& running) noexcept
      : engine_(engine), membership_(membership), group_(group), running_(running) {}

  /// Nothing is brought to that call.
  void begin() noexcept { is_all_here_ = true; }
  /// Finds where the data of a call that brings some lies in every rank's memory.
  void take_places(const Call& call, std::size_t ring_bytes) noexcept {
    group_.take_payload_place(running_.sequence, call.announced_bytes, ring_bytes);
  }
  /// Before the announcement: copies what comes with it. `finds_own_given`: this rank reads its own data
  /// where the caller gave it.
  void bring_first(const Call& call, bool finds_own_given) noexcept {
    if (call.send_bytes >= kLeastBytesToLookAt) return bring_first_of_large(call, finds_own_given);
    copy_bytes(own_slot(call), call.send, call.send_bytes);
  }
  /// After it: the rest.
  void bring_rest(const Call& call) noexcept {
    if (!is_all_here_) bring_rest_of_large(call);
  }

  /// Whether a peer's data comes in pieces, by its announcement.
  [[nodiscard]] bool is_in_pieces(Rank peer) const noexcept;
  /// Whether so many bytes of it have come, or come while this rank spins.
  [[nodiscard]] bool has_come(Rank peer, std::size_t bytes) const noexcept;
  /// The same of all data of those among these that this rank needs.
  [[nodiscard]] bool have_all_come(std::span<const Rank> peers, const Call& call) const noexcept;
  Task<> until_all_have_come(std::span<const Rank> peers, const Call& call);

 private:
  /// Below, all is copied sooner than it is found out what has to be.
  static constexpr std::size_t kLeastBytesToLookAt = 2048;

  void bring_first_of_large(const Call& call, bool finds_own_given) noexcept;
  void bring_rest_of_large(const Call& call) noexcept;
  [[nodiscard]] std::byte* own_slot(const Call& call) const noexcept {
    return group_.payload(membership_.rank, running_.sequence, call.announced_bytes);
  }
  /// What of the slot's place `at` on is for others to read.
  void copy_given(const Call& call, std::size_t at, std::size_t bytes) const noexcept;
  [[nodiscard]] bool is_needed(Rank peer, const Call& call) const noexcept {
    return call.op.needs(membership_.rank, peer, call.root);
  }
  [[nodiscard]] std::uint32_t given_bytes(Rank rank, const Call& call) const noexcept;

  Engine& engine_;
  const Membership& membership_;
  host::HostGroup& group_;
  const RunningOperation& running_;

  // Of the call that runs:
  bool is_all_here_ = true;
  std::size_t first_bytes_ = 0;
  // What is for this rank alone; an empty stretch if nothing is:
  std::size_t kept_at_ = 0;
  std::size_t kept_end_ = 0;
};

}  // namespace cohort
