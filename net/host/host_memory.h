// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/system/shared_memory.h>
#include <cohort/net/host/doorbell.h>
#include <cohort/net/membership.h>

#include <optional>
#include <span>
#include <vector>

namespace cohort::host {

/// What lies in the segment of a host, and where: all ranks' lines next to each other, then each one's part.
struct HostSizes {
  std::size_t lines_bytes;  ///< of one rank; they begin with the doorbell's words
  std::size_t part_bytes;   ///< the same
};

/// The segment that the ranks of a joined communicator share on this host, and what wakes them: shared by the
/// communicator's own HostGroup and those of the groups within it, which lie in the same segment.
///
/// The first of the ranks creates it and gives it to the others. Each maps it once: pages are there where
/// somebody uses them, so a rank costs the others what of it they look at, and no mapping.
///
/// Ranks are those of the communicator that was joined. Threads: the engine's. Lifetime: listen() is over
/// when it ends.
class HostMemory : Immovable {
 public:
  /// `members` in rank order, this rank among them. Isolated: those in this very process map it apart. Throws
  /// ResourceLimit.
  HostMemory(Engine& engine, const Membership& membership, std::span<const Rank> members,
             const HostSizes& sizes, bool is_isolated);

  /// What every peer on this host must be given: of the first rank the segment, and the doorbell's eventfd if
  /// there is one.
  [[nodiscard]] std::vector<int> descriptors_for_peers() const;
  /// Takes a member's. Throws ProtocolError when they are not what they should be.
  void adopt(Rank peer, std::vector<Descriptor> descriptors);
  /// Whether there is memory: since the first rank's was taken.
  [[nodiscard]] bool is_backed() const noexcept { return is_backed_; }

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  /// That member's part.
  [[nodiscard]] SharedMemory& part(Rank of) noexcept { return parts_[of]; }
  /// That member's.
  [[nodiscard]] std::byte* lines(Rank of) const noexcept;
  [[nodiscard]] Doorbell& doorbell(Rank of) noexcept { return doorbells_[of]; }
  [[nodiscard]] DoorbellListener& listener() noexcept { return listener_; }

 private:
  [[nodiscard]] DoorbellWords& words_of(Rank rank) const noexcept;
  /// There is memory from now on.
  void backed();

  Engine& engine_;
  const Rank rank_;
  const std::vector<Rank> members_;
  const std::vector<Rank> on_other_engines_;
  const std::size_t lines_bytes_;
  SharedMemory whole_;
  bool is_backed_ = false;
  std::optional<CoreGroup> cores_;
  std::vector<SharedMemory> parts_;  ///< by rank, of members
  std::vector<Doorbell> doorbells_;
  DoorbellListener listener_;
};

}  // namespace cohort::host
