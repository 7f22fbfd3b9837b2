// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/tuning.h>
#include <cohort/net/host/host_group.h>
#include <cohort/net/link_owner.h>
#include <cohort/net/packet.h>

#include <optional>
#include <string>

namespace cohort::shm {

/// Packets through shared memory: a ring of cache lines in the sender's segment, each with its number, which
/// the receiver waits for. A packet of up to 32 bytes is one cache line's way. Payloads beyond that lie
/// beside, in several parts if they are large, so that the receiver copies one while the next is copied.
///
/// It says only now and then how far it has read, so that the line is not asked for.
class ShmPackets final : public PacketChannel {
 public:
  ShmPackets(host::HostGroup& group, LinkOwner& host, Rank peer) noexcept
      : group_(group),
        host_(host),
        peer_(peer),
        out_(&group.own().packet(peer, 0)),
        in_(&group.segment(peer).packet(group.rank(), 0)) {}

  [[nodiscard]] std::size_t most_payload() const noexcept override {
    return tuning::messages::kMostCells * tuning::messages::kCell;
  }
  [[nodiscard]] bool try_send(const Packet& packet, const std::byte* payload) noexcept override;
  [[nodiscard]] bool has_room() noexcept override { return has_room_for(tuning::messages::kMostCells); }
  [[nodiscard]] bool peek(Packet& packet) noexcept override;
  [[nodiscard]] bool take_by(Copy copy, std::byte* into) noexcept override;
  [[nodiscard]] bool spin() noexcept override;
  void locate(Packet& packet, const std::byte* data) const noexcept override;
  [[nodiscard]] std::byte* mapped(const Packet& packet) const noexcept override;

 private:
  void fail(const Error& error) noexcept;
  [[nodiscard]] bool has_room_for(std::uint32_t cells) noexcept;
  void stamp_next() noexcept;
  void stamp_amid_packet() noexcept;
  [[nodiscard]] bool has_come_whole(std::uint32_t cells) const noexcept;
  /// What is next, as far as it has come; whether that is all.
  [[nodiscard]] bool copy_cells(Copy copy, std::byte* into, std::uint32_t cells) noexcept;
  [[nodiscard]] const host::PacketCell& next_in() const noexcept {
    return in_[taken_ % tuning::messages::kCells];
  }

  host::HostGroup& group_;
  LinkOwner& host_;
  const Rank peer_;
  host::PacketCell* const out_;       ///< of tuning::messages::kCells, in the own segment
  const host::PacketCell* const in_;  ///< the same in the peer's
  // In cells:
  std::uint32_t sent_ = 0;
  std::uint32_t read_by_peer_ = 0;  ///< as far as is known
  std::uint32_t taken_ = 0;
  std::size_t next_bytes_ = 0;  ///< of the packet that peek() has shown
  /// That packet, if it has several cells: what was looked at once counts, whatever the peer writes there
  /// before all of it has come.
  std::optional<Packet> next_;
  // Of it, what copy_cells() has copied, and to where:
  std::uint32_t copied_cells_ = 0;
  const std::byte* into_ = nullptr;
  bool is_broken_ = false;
};

}  // namespace cohort::shm
