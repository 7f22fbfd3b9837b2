// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/system/shared_memory.h>
#include <cohort/net/host/doorbell.h>
#include <cohort/net/membership.h>

#include <span>
#include <vector>

namespace cohort::host {

/// The segments of a joined communicator's ranks on this host, as this process maps them, and what wakes
/// their owners: shared by the communicator's own HostGroup and those of the groups within it, whose parts
/// lie in the same segments.
///
/// Ranks are those of the communicator that was joined. Threads: the engine's. Lifetime: listen() is over
/// when it ends.
class HostMemory : Immovable {
 public:
  static constexpr std::size_t kMostDescriptors = 2;

  /// Creates this rank's segment, which begins with the doorbell's words. Throws ResourceLimit.
  HostMemory(Engine& engine, const Membership& membership, std::size_t segment_bytes);

  /// What every peer on this host must be given: the segment, and the doorbell's eventfd if there is one.
  [[nodiscard]] std::vector<int> descriptors_for_peers() const;
  /// Takes a peer's. Throws ProtocolError when they are not what they should be.
  void adopt(Rank peer, bool is_in_process, std::vector<Descriptor> descriptors);

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  /// Empty before adopt().
  [[nodiscard]] SharedMemory& segment(Rank of) noexcept { return segments_[of]; }
  [[nodiscard]] const SharedMemory& segment(Rank of) const noexcept { return segments_[of]; }
  [[nodiscard]] Doorbell& doorbell(Rank of) noexcept { return doorbells_[of]; }
  [[nodiscard]] DoorbellListener& listener() noexcept { return listener_; }

 private:
  const Rank rank_;
  const std::size_t segment_bytes_;
  std::vector<SharedMemory> segments_;
  std::vector<Doorbell> doorbells_;
  DoorbellListener listener_;
};

}  // namespace cohort::host
