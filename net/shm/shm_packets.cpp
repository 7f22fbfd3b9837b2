// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/shm/shm_packets.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/protocol_error.h>

#include <algorithm>
#include <utility>

namespace cohort::shm {
namespace {

static_assert(tuning::messages::kCellsBetweenCredits + tuning::messages::kMostCells <=
                  tuning::messages::kCells,
              "a packet may wait for ever");

constexpr bool is_beside(std::size_t bytes) noexcept { return bytes <= sizeof host::PacketCell::beside; }

constexpr std::uint32_t cells_of(std::size_t bytes) noexcept {
  if (is_beside(bytes)) return 1;
  return static_cast<std::uint32_t>((bytes + tuning::messages::kCell - 1) / tuning::messages::kCell);
}

/// What of so many bytes lies beside cell `index` of a packet.
constexpr std::size_t bytes_in_cell(std::size_t bytes, std::uint32_t index) noexcept {
  return std::min(tuning::messages::kCell, bytes - index * tuning::messages::kCell);
}

}  // namespace

void ShmPackets::fail(const Error& error) noexcept {
  if (std::exchange(is_broken_, true)) return;
  host_.link_failed(peer_, blamed_on(error, group_.rank(), peer_));
}

bool ShmPackets::has_room_for(std::uint32_t cells) noexcept {
  if (is_broken_) return false;
  if (sent_ - read_by_peer_ + cells <= tuning::messages::kCells) return true;
  read_by_peer_ = group_.segment(peer_).packets_read(group_.rank()).load(std::memory_order_seq_cst);
  if (sent_ - read_by_peer_ > tuning::messages::kCells)
    fail(protocol_error("rank {} has read {} packets, and was sent {}", peer_, read_by_peer_, sent_));
  return !is_broken_ && sent_ - read_by_peer_ + cells <= tuning::messages::kCells;
}

void ShmPackets::stamp_next() noexcept {
  host::PacketCell& cell = out_[sent_ % tuning::messages::kCells];
  cell.stamp.store(++sent_, std::memory_order_seq_cst);
  group_.notify(peer_);
}

/// For a peer that spins. One that sleeps is woken by the first cell, or by the last, which comes at once.
void ShmPackets::stamp_amid_packet() noexcept {
  host::PacketCell& cell = out_[sent_ % tuning::messages::kCells];
  cell.stamp.store(++sent_, std::memory_order_release);
}

bool ShmPackets::try_send(const Packet& packet, const std::byte* payload) noexcept {
  const std::size_t bytes = packet.payload_bytes();
  COHORT_ASSERT(bytes <= most_payload(), "a packet of {} bytes", bytes);
  const std::uint32_t cells = cells_of(bytes);
  if (!has_room_for(cells)) return false;
  host::PacketCell& cell = out_[sent_ % tuning::messages::kCells];
  cell.kind = static_cast<std::uint8_t>(packet.kind);
  cell.where = static_cast<std::uint8_t>(packet.where);
  cell.tag = packet.tag;
  cell.id = packet.id;
  cell.bytes = packet.bytes;
  cell.place = packet.place;
  if (is_beside(bytes)) {
    copy_few_bytes(cell.beside, payload, bytes);
    stamp_next();
    return true;
  }
  for (std::uint32_t i = 0; i < cells; ++i) {
    copy_bytes(group_.own().packet_payload(peer_, sent_), payload + i * tuning::messages::kCell,
               bytes_in_cell(bytes, i));
    const bool is_amid = i != 0 && i + 1 < cells;
    is_amid ? stamp_amid_packet() : stamp_next();
  }
  return true;
}

bool ShmPackets::peek(Packet& packet) noexcept {
  if (next_ && !is_broken_) {
    packet = *next_;
    return true;
  }
  const host::PacketCell& cell = next_in();
  if (is_broken_ || cell.stamp.load(std::memory_order_seq_cst) != taken_ + 1) return false;
  const std::uint8_t kind = cell.kind;
  const std::uint8_t where = cell.where;
  packet.kind = static_cast<Packet::Kind>(kind);
  packet.where = static_cast<Packet::Where>(where);
  packet.tag = cell.tag;
  packet.id = cell.id;
  packet.bytes = cell.bytes;
  packet.place = cell.place;
  next_bytes_ = packet.payload_bytes();
  const bool is_sound = kind >= static_cast<std::uint8_t>(Packet::Kind::message) &&
                        kind <= static_cast<std::uint8_t>(Packet::Kind::copy_too) &&
                        where <= static_cast<std::uint8_t>(Packet::Where::peer_address) &&
                        next_bytes_ <= most_payload();
  if (!is_sound)
    fail(protocol_error("rank {} sends a packet of kind {} with {} bytes, which is none", peer_, kind,
                        next_bytes_));
  else if (next_bytes_ > tuning::messages::kCell)
    next_ = packet;
  return is_sound;
}

/// In one order with the peer's look at whether this rank sleeps, as that of cells amid a packet is not.
bool ShmPackets::has_come_whole(std::uint32_t cells) const noexcept {
  const std::uint32_t end = taken_ + cells;
  return in_[(end - 1) % tuning::messages::kCells].stamp.load(std::memory_order_seq_cst) == end;
}

/// Cells are the sender's again only when all of the packet was taken: for another place it begins anew.
bool ShmPackets::copy_cells(Copy copy, std::byte* into, std::uint32_t cells) noexcept {
  if (std::exchange(into_, into) != into) copied_cells_ = 0;
  for (; copied_cells_ < cells; ++copied_cells_) {
    const std::uint32_t number = taken_ + copied_cells_;
    const host::Counter& stamp = in_[number % tuning::messages::kCells].stamp;
    if (copied_cells_ != 0 && !group_.spin_for(stamp, number + 1) && !has_come_whole(cells)) return false;
    copy(into + copied_cells_ * tuning::messages::kCell,
         group_.segment(peer_).packet_payload(group_.rank(), number),
         bytes_in_cell(next_bytes_, copied_cells_));
  }
  copied_cells_ = 0;
  into_ = nullptr;
  next_.reset();
  return true;
}

bool ShmPackets::take_by(Copy copy, std::byte* into) noexcept {
  const std::uint32_t cells = cells_of(next_bytes_);
  if (is_beside(next_bytes_))
    copy_few_bytes(into, next_in().beside, next_bytes_);
  else if (!copy_cells(copy, into, cells))
    return false;
  const std::uint32_t told = taken_ / tuning::messages::kCellsBetweenCredits;
  taken_ += cells;
  if (taken_ / tuning::messages::kCellsBetweenCredits != told) {
    group_.own().packets_read(peer_).store(taken_, std::memory_order_seq_cst);
    group_.notify(peer_);
  }
  return true;
}

bool ShmPackets::spin() noexcept {
  if (is_broken_) return false;
  return group_.spin_for(next_in().stamp, taken_ + 1);
}

void ShmPackets::locate(Packet& packet, const std::byte* data) const noexcept {
  SharedMemory& own = group_.own().memory();
  if (group_.is_in_process(peer_)) {
    packet.where = Packet::Where::address;
    packet.place = reinterpret_cast<std::uintptr_t>(data);
  } else if (own.contains(data, packet.bytes)) {
    packet.where = Packet::Where::segment;
    packet.place = static_cast<std::uint64_t>(data - own.data());
  } else {
    packet.where = Packet::Where::peer_address;
    packet.place = reinterpret_cast<std::uintptr_t>(data);
  }
}

std::byte* ShmPackets::mapped(const Packet& packet) const noexcept {
  if (packet.where == Packet::Where::address && group_.is_in_process(peer_))
    return reinterpret_cast<std::byte*>(packet.place);
  const SharedMemory& theirs = group_.segment(peer_).memory();
  const bool fits = packet.place <= theirs.size_bytes() && packet.bytes <= theirs.size_bytes() - packet.place;
  return packet.where == Packet::Where::segment && fits ? theirs.data() + packet.place : nullptr;
}

}  // namespace cohort::shm
