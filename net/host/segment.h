// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/shared_memory.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/cooperative_copy.h>
#include <cohort/net/host/doorbell.h>
#include <cohort/net/host/payload_ring.h>
#include <cohort/net/link.h>
#include <cohort/net/link_owner.h>
#include <cohort/net/rank.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cohort::host {

/// How many such places one peer has, a power of two: the more the better, as in PayloadRing, but those of
/// all peers together take no more than that ring, or `least` places each.
[[nodiscard]] constexpr std::uint32_t places_of_peer(Rank ranks, std::size_t place_bytes,
                                                     std::uint32_t least) noexcept {
  const auto of_all = static_cast<std::uint32_t>(PayloadRing::kMostBytes / place_bytes);
  return std::max(std::bit_floor(of_all / std::max(ranks - 1, 1U)), least);
}

/// A counter in shared memory: one writer, who only counts up; everybody may wait for a value.
using Counter = std::atomic<std::uint32_t>;
static_assert(Counter::is_always_lock_free);

/// True when a counter has reached `target`, modulo 2^32.
[[nodiscard]] inline bool has_reached(std::uint32_t value, std::uint32_t target) noexcept {
  return static_cast<std::int32_t>(value - target) >= 0;
}

/// A rank's announcement of one collective: "I am here, this is what I run", and small data with it. Two
/// alternate: a rank that arrives at collective n+1 has seen everybody arrive at n, so nobody reads the one
/// of n-1 any more.
struct alignas(kCacheLine) ArrivalSlot {
  Counter stamp{0};             ///< low half of the sequence number; written last
  std::uint32_t reachable = 0;  ///< how the owner's user windows can be reached, if they do not lie here
  Signature signature;
  std::byte beside_stamp[kCacheLine - 24];  ///< data this small costs no second cache line
  /// How many bytes of the data are there, where it comes in pieces: in a line of its own, which who waits
  /// for the stamp does not read.
  alignas(kCacheLine) Counter filled{0};
};
static_assert(offsetof(ArrivalSlot, filled) == kCacheLine);

/// The signals that one peer has posted on one lane, and in which collectives. Written by that peer.
struct alignas(kCacheLine) SignalCell {
  /// Posts whose collectives are known: those that a link may leave untaken in one collective, and as many in
  /// the next, where the peer may be already.
  static constexpr std::uint32_t kStamps = 2 * Link::kMostUntaken;
  using Stamp = std::atomic<std::uint16_t>;  ///< the low bits of a collective's number

  Counter posted[kSignals] = {};
  Stamp collective[kSignals][kStamps] = {};  ///< of post number i, from 0, at i % kStamps
};
static_assert(sizeof(SignalCell) == kCacheLine && SignalCell::Stamp::is_always_lock_free);

/// Announcements of the two-sided direction "owner sends to peer" on one lane. Written by the owner.
struct alignas(kCacheLine) SendCell {
  Counter sent{0};  ///< pieces announced
  /// A stage holds the beginning of what is left of a message, any other place all of it.
  enum class Place : std::uint32_t { stage, segment, address };
  struct Piece {
    std::uint64_t address_or_offset = 0;  ///< in the owner's segment, or an address in a shared process
    std::uint64_t left_bytes = 0;         ///< of the message, from this piece on
    Place place = Place::stage;
  } piece[tuning::stages::kLinkPieces];
};

/// Pieces that the owner has consumed from one peer on one lane. Written by the owner.
struct alignas(kCacheLine) ReceiveCell {
  Counter consumed{0};
};

/// Packets of send() and recv() from the owner to one peer: a ring of these, and beside each room for a
/// larger payload. A payload larger still takes several cells in a row, stamped as their bytes come; the
/// first one says what it is. Written by the owner.
struct alignas(kCacheLine) PacketCell {
  Counter stamp{0};  ///< the cell's number, from 1; written last
  std::uint8_t kind = 0;
  std::uint8_t where = 0;
  std::int32_t tag = 0;
  std::uint32_t id = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;
  std::byte beside[32];  ///< payloads this small cost no second cache line
};
static_assert(sizeof(PacketCell) == kCacheLine);

/// How many packets of one peer the owner has read. Written by the owner.
struct alignas(kCacheLine) PacketsRead {
  Counter count{0};
};

/// What both ends copy of one message from a peer to the owner.
struct PartsCell {
  alignas(kCacheLine) CooperativeCopy::Word taken{0};  ///< written by both
  alignas(kCacheLine) Counter copied{0};               ///< by the peer, of all messages; written by the peer
};

/// Who may still be in whose memory when a collective fails. Written by the owner.
struct alignas(kCacheLine) AccessCell {
  Counter touches{0};  ///< 1 while the owner reads or writes peers' user memory
  /// 1 once the owner's user memory must not be touched any more. Apart, since peers look at it every time.
  alignas(kCacheLine) Counter withdrawn{0};
};

/// What peers look at of a rank, in every collective or to wake it: on a host those of all ranks lie next to
/// each other, many in a page. By pairs of lines, since processors fetch them so.
struct alignas(2 * kCacheLine) RankLines {
  DoorbellWords doorbell;  ///< of the communicator that was joined, for its groups, too
  ArrivalSlot arrivals[2];
  alignas(kCacheLine) Counter phase{0};
  AccessCell access;
};

/// How a communicator's part of what a rank has in its host's segment is laid out: of the one that was joined
/// the whole, of a group a region with lines of its own and without a heap. The same on every rank: computed
/// from agreed numbers, never read from a peer.
class Layout {
 public:
  Layout(Rank ranks, std::size_t buffer_bytes, std::size_t heap_bytes) noexcept
      : Layout(ranks, buffer_bytes, heap_bytes, 0,
               places_of_peer(ranks, tuning::stages::kLinkPiece, tuning::stages::kLinkPieces),
               places_of_peer(ranks, tuning::messages::kCell, tuning::messages::kCells)) {}
  /// Of a group, of which there may be many in one segment: as few places as there can be.
  [[nodiscard]] static Layout of_group(Rank ranks, std::size_t buffer_bytes) noexcept {
    return {ranks, buffer_bytes, 0, sizeof(RankLines), tuning::stages::kLinkPieces, tuning::messages::kCells};
  }

  /// Data of an arrival that lies in no ring, aligned for vectors.
  [[nodiscard]] std::size_t slot(std::uint64_t sequence) const noexcept {
    return slots_ + (sequence & 1) * tuning::slots::kMostBytes;
  }
  [[nodiscard]] std::size_t payload_ring() const noexcept { return payload_ring_; }
  [[nodiscard]] std::size_t signals(Rank from, Lane lane) const noexcept {
    return signals_ + cell(from, lane) * sizeof(SignalCell);
  }
  [[nodiscard]] std::size_t sends(Rank to, Lane lane) const noexcept {
    return sends_ + cell(to, lane) * sizeof(SendCell);
  }
  [[nodiscard]] std::size_t receives(Rank from, Lane lane) const noexcept {
    return receives_ + cell(from, lane) * sizeof(ReceiveCell);
  }
  [[nodiscard]] std::size_t stage(Rank to, Lane lane, std::uint32_t piece) const noexcept {
    return stages_ + (cell(to, lane) * stages_per_link_ + (piece & (stages_per_link_ - 1))) *
                         tuning::stages::kLinkPiece;
  }
  [[nodiscard]] std::size_t packet(Rank to, std::uint32_t number) const noexcept {
    return packets_ + (std::size_t{to} * tuning::messages::kCells + number % tuning::messages::kCells) *
                          sizeof(PacketCell);
  }
  [[nodiscard]] std::size_t packet_payload(Rank to, std::uint32_t number) const noexcept {
    return packet_payloads_ + payload_index(to, number) * tuning::messages::kCell;
  }
  [[nodiscard]] std::size_t packets_read(Rank from) const noexcept {
    return packets_read_ + from * sizeof(PacketsRead);
  }
  [[nodiscard]] std::size_t cooperative_copy(Rank from) const noexcept {
    return cooperative_copy_ + from * sizeof(PartsCell);
  }
  [[nodiscard]] std::size_t ccl_in() const noexcept { return ccl_in_; }
  [[nodiscard]] std::size_t ccl_out() const noexcept { return ccl_out_; }
  [[nodiscard]] std::size_t heap() const noexcept { return heap_; }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }
  [[nodiscard]] std::size_t heap_bytes() const noexcept { return heap_bytes_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return heap_ + heap_bytes_; }

 private:
  Layout(Rank ranks, std::size_t buffer_bytes, std::size_t heap_bytes, std::size_t lines_bytes,
         std::uint32_t stages_per_link, std::uint32_t payloads_per_peer) noexcept;

  [[nodiscard]] std::size_t payload_index(Rank to, std::uint32_t number) const noexcept {
    return std::size_t{to} * payloads_per_peer_ + (number & (payloads_per_peer_ - 1));
  }
  [[nodiscard]] std::size_t cell(Rank peer, Lane lane) const noexcept {
    return static_cast<std::size_t>(peer) * kMostLanes + lane;
  }

  std::uint32_t stages_per_link_ = 0;
  std::uint32_t payloads_per_peer_ = 0;
  std::size_t slots_ = 0;
  std::size_t signals_ = 0;
  std::size_t sends_ = 0;
  std::size_t receives_ = 0;
  std::size_t stages_ = 0;
  std::size_t packets_ = 0;
  std::size_t packets_read_ = 0;
  std::size_t cooperative_copy_ = 0;
  std::size_t packet_payloads_ = 0;
  std::size_t payload_ring_ = 0;
  std::size_t ccl_in_ = 0;
  std::size_t ccl_out_ = 0;
  std::size_t heap_ = 0;
  std::size_t buffer_bytes_ = 0;
  std::size_t heap_bytes_ = 0;
};

/// One communicator's part of what one rank has in its host's segment, as mapped here, with typed access to
/// its places. Everything in it that a peer writes is untrusted: read once, checked, then used.
class Segment {
 public:
  Segment() = default;
  /// What begins at `begin` of the rank's part, and its lines; all outlive this.
  Segment(SharedMemory& memory, std::size_t begin, std::byte* lines, const Layout& layout) noexcept
      : memory_(&memory),
        begin_(memory.data() + begin),
        lines_(reinterpret_cast<RankLines*>(lines)),
        layout_(&layout) {}

  [[nodiscard]] bool is_mapped() const noexcept { return begin_ != nullptr; }
  /// All that the rank has, with all communicators' parts and the heap.
  [[nodiscard]] SharedMemory& memory() const noexcept { return *memory_; }
  /// An offset of the layout's.
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept { return begin_ + offset; }

  [[nodiscard]] ArrivalSlot& arrival(std::uint64_t sequence) const noexcept {
    return lines_->arrivals[sequence & 1];
  }
  [[nodiscard]] std::byte* slot(std::uint64_t sequence) const noexcept { return at(layout_->slot(sequence)); }
  [[nodiscard]] Counter& phase() const noexcept { return lines_->phase; }
  [[nodiscard]] AccessCell& access() const noexcept { return lines_->access; }
  [[nodiscard]] SignalCell& signals(Rank from, Lane lane) const noexcept {
    return as<SignalCell>(layout_->signals(from, lane));
  }
  [[nodiscard]] SendCell& sends(Rank to, Lane lane) const noexcept {
    return as<SendCell>(layout_->sends(to, lane));
  }
  [[nodiscard]] ReceiveCell& receives(Rank from, Lane lane) const noexcept {
    return as<ReceiveCell>(layout_->receives(from, lane));
  }

  [[nodiscard]] PacketCell& packet(Rank to, std::uint32_t number) const noexcept {
    return as<PacketCell>(layout_->packet(to, number));
  }
  [[nodiscard]] std::byte* packet_payload(Rank to, std::uint32_t number) const noexcept {
    return at(layout_->packet_payload(to, number));
  }
  [[nodiscard]] Counter& packets_read(Rank from) const noexcept {
    return as<PacketsRead>(layout_->packets_read(from)).count;
  }
  [[nodiscard]] PartsCell& cooperative_copy(Rank from) const noexcept {
    return as<PartsCell>(layout_->cooperative_copy(from));
  }

 private:
  template <class T>
  [[nodiscard]] T& as(std::size_t offset) const noexcept {
    return *reinterpret_cast<T*>(at(offset));
  }

  SharedMemory* memory_ = nullptr;
  std::byte* begin_ = nullptr;
  RankLines* lines_ = nullptr;
  const Layout* layout_ = nullptr;
};

}  // namespace cohort::host
