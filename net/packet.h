// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/task.h>
#include <cohort/net/rank.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort {

/// What two ranks say to each other about messages of send() and recv(). Small ones travel in a packet;
/// larger ones are offered, and when the receiver knows where they go, it fetches them or has them sent.
struct Packet {
  enum class Kind : std::uint8_t {
    message = 1,  ///< all of a message, `bytes` long, is the packet's payload
    offer,        ///< a message of `bytes` waits at its sender, who calls it `id`
    fetched,      ///< answers an offer: the receiver has all of it
    send_it,      ///< answers an offer: its bytes are to come, in pieces or by a BulkChannel
    piece,        ///< `bytes` more of `id`, in order: the payload
    credit,       ///< so many `bytes` of packets with messages were used up: as many more may come
    copy_too,     ///< answers an offer: until `fetched` its sender may copy parts of it, to `place`
  };
  /// Where an offer's bytes lie, or go to, as whoever writes the packet says.
  enum class Where : std::uint8_t {
    with_sender,   ///< nowhere that the other one reaches
    address,       ///< in the process that both share
    segment,       ///< an offset in the writer's segment
    peer_address,  ///< an address in the writer's process, which the kernel may read
  };

  Kind kind = Kind::message;
  Where where = Where::with_sender;
  std::int32_t tag = 0;
  std::uint32_t id = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;  ///< of an offer, and of copy_too

  [[nodiscard]] bool has_payload() const noexcept { return kind == Kind::message || kind == Kind::piece; }
  [[nodiscard]] std::size_t payload_bytes() const noexcept { return has_payload() ? bytes : 0; }
};

/// Who reads a channel's packets. Called by the channel's services, not from within its calls.
class PacketHandler {
 public:
  /// Something may have come: takes it, as long as the engine's turn lasts.
  virtual void packets_came(Rank from) noexcept = 0;
  /// Who waits for packets of a rank. What one rank may say is worth a look in every turn of the loop; for
  /// what whoever may say, the kernel is to wake it.
  enum class Waiting : std::uint8_t { nobody, for_anybody, for_this_rank };
  [[nodiscard]] virtual Waiting waiting_for(Rank from) const noexcept = 0;
  /// try_send() may be tried again.
  virtual void room_came(Rank to) noexcept = 0;

 protected:
  ~PacketHandler() = default;
};

/// A way for the bytes of large messages beside the packets about them, from where they lie to where they go:
/// in the order in which the receiver has asked for them.
class BulkChannel : Immovable {
 public:
  /// A channel that broke is reported so much later: who gives a message up ends it at once, and listens for
  /// a while before it says why.
  static constexpr Duration kReasonTime = std::chrono::milliseconds(750);

  virtual ~BulkChannel() = default;

  /// Completes when the memory may be reused. One at a time. Throws only the cause of its scope.
  [[nodiscard]] virtual Task<> send(std::span<const std::byte> data) = 0;
  /// The same for what the peer sends next, in the other direction.
  [[nodiscard]] virtual Task<> receive(std::span<std::byte> data) = 0;
  /// A message that was asked for will not be moved: nothing is any more, in either direction, since what
  /// follows would be taken for it. Without a report.
  virtual void shutdown() noexcept = 0;
};

/// Packets between this rank and one peer, in order in each direction, between collectives and during them:
/// no frame and no signal of a link is touched.
///
/// What comes is checked: a kind, and a payload of at most most_payload(). A broken channel, or one that
/// says nonsense, reports to its LinkOwner, sends nothing and brings nothing. Threads: the engine's.
class PacketChannel : Immovable {
 public:
  virtual ~PacketChannel() = default;

  /// The most bytes that go with a packet.
  [[nodiscard]] virtual std::size_t most_payload() const noexcept = 0;
  /// The most that go with a piece of a message.
  [[nodiscard]] virtual std::size_t most_piece() const noexcept { return most_payload(); }
  /// Takes the packet and its payload, or neither: false while there is no room. Never waits. The payload may
  /// be reused at once; but a piece while borrows_from() says so must stay.
  [[nodiscard]] virtual bool try_send(const Packet& packet, const std::byte* payload) noexcept = 0;
  /// Whether try_send() would take a packet, as far as is known.
  [[nodiscard]] virtual bool has_room() noexcept = 0;
  /// Whether some of that memory is still to be sent. What room_came() tells may have changed it.
  [[nodiscard]] virtual bool borrows_from(std::span<const std::byte>) const noexcept { return false; }
  /// That memory may be reused now: what is still to be sent of it is copied.
  virtual void give_back(std::span<const std::byte>) noexcept {}
  /// The next packet that has come, which stays the next until take(); false if there is none.
  [[nodiscard]] virtual bool peek(Packet& packet) noexcept = 0;
  /// Whether take() of the next packet brings it at once, or else leaves all of it to be taken to another
  /// place.
  [[nodiscard]] virtual bool is_whole() const noexcept { return true; }
  /// Puts the payload of the next packet there and removes it; false: not all has come, call it again with
  /// the same place. `into` of a packet without payload is not looked at.
  [[nodiscard]] bool take(std::byte* into) noexcept { return take_by(copy_bytes, into); }
  /// The same by this function, where the payload lies in memory that both ends map.
  using Copy = void (*)(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  [[nodiscard]] virtual bool take_by(Copy copy, std::byte* into) noexcept = 0;
  /// Whether it broke, or was closed, before all was sent that was borrowed.
  [[nodiscard]] virtual bool has_dropped_a_piece() const noexcept { return false; }
  /// Whether the connection broke before the peer had ended it: what it had said last may be lost.
  [[nodiscard]] virtual bool has_lost_words() const noexcept { return false; }
  /// Waits in place for a packet, for a bounded while, where that pays. Whether one is there.
  [[nodiscard]] virtual bool spin() noexcept { return false; }

  /// Where an offer's bytes go that the receiver asks for, so many of them; the same at both ends. Null: in
  /// pieces.
  [[nodiscard]] virtual BulkChannel* bulk_for(std::size_t) noexcept { return nullptr; }

  /// Says in a packet where the peer can reach these bytes of this rank.
  virtual void locate(Packet&, const std::byte*) const noexcept {}
  /// Where the bytes that such a packet speaks of lie, if loads and stores reach them, else null.
  [[nodiscard]] virtual std::byte* mapped(const Packet&) const noexcept { return nullptr; }
};

}  // namespace cohort
