// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/p2p/loopback_packets.h>

#include <utility>

namespace cohort {

Task<> LoopbackPackets::serve() {
  for (;;) {
    co_await news_.wait();
    std::size_t taken = taken_;
    handler_.room_came(own_);
    // It takes some as long as its turn lasts, and none when the communicator has failed.
    while (taken_ != sent_ && taken_ != taken) {
      co_await engine_.let_others_run();
      taken = taken_;
      handler_.room_came(own_);
    }
  }
}

bool LoopbackPackets::try_send(const Packet& packet, const std::byte* payload) noexcept {
  if (!has_room()) {
    is_waited_for_ = true;
    return false;
  }
  Cell& cell = ring_[sent_++ % kCells];
  cell.packet = packet;
  if (packet.payload_bytes() != 0) copy_bytes(cell.payload.data(), payload, packet.payload_bytes());
  wake();
  return true;
}

bool LoopbackPackets::peek(Packet& packet) noexcept {
  if (taken_ == sent_) return false;
  packet = ring_[taken_ % kCells].packet;
  return true;
}

bool LoopbackPackets::take_by(Copy copy, std::byte* into) noexcept {
  const Cell& cell = ring_[taken_++ % kCells];
  if (cell.packet.payload_bytes() != 0) copy(into, cell.payload.data(), cell.packet.payload_bytes());
  if (std::exchange(is_waited_for_, false)) wake();
  return true;
}

void LoopbackPackets::locate(Packet& packet, const std::byte* data) const noexcept {
  packet.where = Packet::Where::address;
  packet.place = reinterpret_cast<std::uint64_t>(data);
}

std::byte* LoopbackPackets::mapped(const Packet& packet) const noexcept {
  return packet.where == Packet::Where::address ? reinterpret_cast<std::byte*>(packet.place) : nullptr;
}

}  // namespace cohort
