// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/packet.h>
#include <cohort/notify/notify.h>

#include <array>

namespace cohort {

/// Packets of a rank to itself: a ring of small ones; larger messages are offered and copied where they lie.
///
/// Threads: the engine's. Lifetime: until the services are joined.
class LoopbackPackets final : public PacketChannel {
 public:
  LoopbackPackets(Engine& engine, Rank own, PacketHandler& handler, TaskScope& services)
      : engine_(engine), own_(own), handler_(handler) {
    services.spawn(serve());
  }

  [[nodiscard]] std::size_t most_payload() const noexcept override { return kMostPayload; }
  [[nodiscard]] bool try_send(const Packet& packet, const std::byte* payload) noexcept override;
  [[nodiscard]] bool has_room() noexcept override { return sent_ - taken_ < kCells; }
  [[nodiscard]] bool peek(Packet& packet) noexcept override;
  [[nodiscard]] bool take_by(Copy copy, std::byte* into) noexcept override;
  void locate(Packet& packet, const std::byte* data) const noexcept override;
  [[nodiscard]] std::byte* mapped(const Packet& packet) const noexcept override;

 private:
  static constexpr std::size_t kMostPayload = 1024;
  static constexpr std::size_t kCells = 32;
  struct Cell {
    Packet packet;
    std::array<std::byte, kMostPayload> payload;
  };

  /// Tells the handler, which may be sending: so never from within its calls.
  Task<> serve();
  void wake() noexcept {
    if (news_.untaken_posts() == 0) news_.post();
  }

  Engine& engine_;
  const Rank own_;
  PacketHandler& handler_;
  Notify news_;
  std::array<Cell, kCells> ring_;
  std::size_t sent_ = 0;
  std::size_t taken_ = 0;
  bool is_waited_for_ = false;  ///< there was no room for a packet
};

}  // namespace cohort
