// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/loop/source.h>
#include <cohort/engine/task_scope.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/framed/bulk_stream.h>
#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/framed/receive_buffer.h>
#include <cohort/net/link_owner.h>
#include <cohort/net/packet.h>
#include <cohort/notify/notify.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cohort::framed {

/// Packets over streams which a rank calls the other one for when it has something to say: so neither has to
/// know what the other one is about to do.
///
/// Who was called answers on the caller's stream, if that goes both ways, and of two that call each other
/// both send on the lower rank's if it comes in time: where data answers data, kernels acknowledge less. Each
/// rank sends on one stream only, so the first on which something comes is the peer's.
///
/// What the stream does not take at once of a packet is kept, one packet at most; of a piece it is sent from
/// where it lies, unless its owner wants that back. A payload goes from the stream to its place; only small
/// ones, which come together with their headers, are copied once more.
///
/// While somebody waits for the peer's packets, each turn of the loop looks for them, which answers faster
/// than the kernel tells; else, and before the loop sleeps, they are left to the kernel. A stream that does
/// not ask the kernel is looked at in each turn, for whomever.
class StreamPackets final : public PacketChannel, private Source {
 public:
  /// Makes a stream, which copies what it takes: calls, or waits for a call.
  using Open = std::function<Task<std::unique_ptr<ByteStream>>()>;

  struct Use {
    Engine& engine;
    LinkOwner& host;
    PacketHandler& handler;
    TaskScope& services;
    Rank own;
    Rank peer;
    bool is_on_this_engine;  ///< the peer: nothing comes of it while this rank looks
    unsigned& looked_at;     ///< how many of the transport's the loop looks at
  };
  /// `bulk`: for what is larger than a packet; may be null.
  StreamPackets(const Use& use, Open call, Open wait_for_call, std::unique_ptr<BulkStream> bulk);
  ~StreamPackets() override;

  [[nodiscard]] std::size_t most_payload() const noexcept override { return kMostPayload; }
  [[nodiscard]] std::size_t most_piece() const noexcept override { return kMostPiece; }
  [[nodiscard]] bool try_send(const Packet& packet, const std::byte* payload) noexcept override;
  [[nodiscard]] bool has_room() noexcept override {
    return out_ && !is_closed_ && !is_out_over_ && is_all_sent();
  }
  [[nodiscard]] bool borrows_from(std::span<const std::byte> memory) const noexcept override;
  void give_back(std::span<const std::byte> memory) noexcept override;
  [[nodiscard]] bool peek(Packet& packet) noexcept override;
  [[nodiscard]] bool is_whole() const noexcept override {
    return has_header_ && staging_.size() + taken_ >= next_.payload_bytes();
  }
  [[nodiscard]] bool take_by(Copy copy, std::byte* into) noexcept override;
  [[nodiscard]] bool spin() noexcept override;
  [[nodiscard]] bool has_dropped_a_piece() const noexcept override { return has_dropped_; }
  [[nodiscard]] bool has_lost_words() const noexcept override {
    return has_lost_words_ || (bulk_ && bulk_->is_broken());
  }
  [[nodiscard]] BulkChannel* bulk_for(std::size_t bytes) noexcept override {
    return bytes > kMostPayload ? bulk_.get() : nullptr;
  }

  /// As ByteStream::until_sent(), for what try_send() has taken.
  [[nodiscard]] Task<> until_sent();
  /// Closes all, without a report.
  void shutdown() noexcept;

 private:
  /// Who looks for what comes.
  enum class Watch : std::uint8_t {
    loop,    ///< poll()
    asked,   ///< neither, until receive_from() has left it to the kernel
    kernel,  ///< which wakes receive_from()
  };

  static constexpr std::size_t kMostPayload = tuning::sockets::kMostPacket;
  /// As much as one call of the kernel moves in half of the time that a turn may take.
  static constexpr std::size_t kMostPiece = tuning::sockets::kPiece;

  [[nodiscard]] static std::size_t most_payload_of(const Packet& packet) noexcept {
    return packet.kind == Packet::Kind::piece ? kMostPiece : kMostPayload;
  }
  Task<> serve_calling(Open call);
  Task<> serve_called(Open wait_for_call);
  Task<> serve(Task<> one);
  void send_on(ByteStream& stream);
  Task<> serve_sending();
  /// Receives from it once something comes there, unless the peer was heard on the other one before. Its mere
  /// end is no failure while the peer may have sent on the other one.
  Task<> listen_to(ByteStream& stream);
  Task<> receive_from(ByteStream& stream);
  bool poll() noexcept override;
  [[nodiscard]] bool is_waited_for() const noexcept override;
  [[nodiscard]] bool arm() noexcept override;
  void disarm() noexcept override {}
  void watch_by(Watch who) noexcept;
  void leave_to_kernel() noexcept;
  /// Lets the handler take what is there. Whether anything moved.
  bool look() noexcept;
  /// Whether there is, or may be, something for the handler.
  [[nodiscard]] bool has_something() const noexcept;
  /// The same, which it would take.
  [[nodiscard]] bool has_more() const noexcept { return !is_closed_ && !is_refused_ && has_something(); }
  [[nodiscard]] bool is_all_sent() const noexcept { return kept_.empty() && borrowed_.empty(); }
  void drop_borrowed() noexcept;
  /// So many bytes of what is left went out.
  void drop_sent(std::size_t bytes) noexcept;
  void flush() noexcept;
  [[nodiscard]] bool send_or_keep(const Packet& packet, const std::byte* payload);
  void wake_waiter() noexcept;
  /// Whether what comes is found by poll() alone.
  [[nodiscard]] bool is_polled() const noexcept { return in_ && !in_->asks_kernel(); }
  /// What breaks while nothing is sent is to be told, too: what was sent last may be lost.
  void look_for_breakage() noexcept;
  /// Receives once; false if nothing has come.
  [[nodiscard]] bool receive(std::span<std::byte> into, std::size_t& bytes) noexcept;
  /// Bytes that are never read turn the end of a connection into a failure at its other end.
  void drop_unread() noexcept;
  void close_packets() noexcept;
  /// Minus an error number, or 0.
  [[nodiscard]] Error end_of(const ByteStream& stream, int result) const noexcept;
  void fail(const Error& error) noexcept;
  /// What the peer has sent is read all the same: it may have left with its last words on their way.
  void fail_sending(const Error& error) noexcept;
  void fail_sending_by(int result) noexcept;

  const Use use_;
  Open call_;
  const std::unique_ptr<BulkStream> bulk_;
  bool is_opened_ = false;  ///< by a call of this rank's, or one of the peer's on which it sends
  bool is_closed_ = false;
  std::unique_ptr<ByteStream> own_call_;    ///< null until the peer has taken it
  std::unique_ptr<ByteStream> peers_call_;  ///< null until the peer has called

  ByteStream* out_ = nullptr;  ///< one of the two, once it is known which
  // Of the packet that is going out:
  std::vector<std::byte> kept_;
  std::size_t kept_sent_ = 0;
  std::span<const std::byte> borrowed_;  ///< behind what is kept
  bool has_dropped_ = false;
  bool is_out_over_ = false;
  Notify work_;
  Notify sent_;  ///< nothing is left of it
  bool is_waited_for_ = false;

  ByteStream* in_ = nullptr;    ///< one of the two, once it is known which
  bool has_one_ended_ = false;  ///< of the two, on which nothing has come
  Watch watch_ = Watch::kernel;
  unsigned vain_turns_ = 0;  ///< of the loop, in which nothing came
  bool is_drained_ = true;   ///< nothing had come behind what was received last
  bool is_refused_ = false;  ///< the handler takes nothing of what is there
  std::uint64_t moves_ = 0;  ///< receptions, and packets that were taken
  Notify receiving_;         ///< posted to leave it to the kernel
  ReceiveBuffer staging_;
  bool has_header_ = false;
  Packet next_;
  std::size_t taken_ = 0;  ///< of its payload
  bool has_lost_words_ = false;
};

}  // namespace cohort::framed
