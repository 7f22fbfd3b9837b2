// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/loop/source.h>
#include <cohort/net/framed/connection.h>
#include <cohort/net/framed/frame.h>
#include <cohort/net/framed/frame_writer.h>
#include <cohort/net/framed/payload.h>

#include <array>
#include <optional>

namespace cohort::framed {

/// The receiving half of a framed link: takes frames off the stream and brings each to what waits for it.
///
/// Frames come into a staging buffer, several at a time if they are small, so that one completion serves a
/// small message. The rest of a larger payload goes straight to its destination, or, to be combined, through
/// the staging buffer.
///
/// A frame whose time has not come stays where it is and nothing is read behind it: the peer's sending then
/// waits for room in the stream.
///
/// Pieces are taken while somebody runs here, but for payloads that were lent whole: the stream fetches these
/// while those behind them are looked at, if they were lent, too, and are to be stored. Anything else waits
/// until all before it were fetched.
class FrameReader final : public Source {
 public:
  FrameReader(Connection& connection, FrameWriter& writer);

  /// Takes what has come, a piece at a time, without waiting: called in every turn of the loop. True if
  /// anything had.
  bool poll() noexcept override;
  [[nodiscard]] bool is_waited_for() const noexcept override { return is_awaited() || fetch_count_ != 0; }
  /// The loop wants to sleep. False: not yet, run() has to leave a request with the kernel first.
  [[nodiscard]] bool arm() noexcept override;
  void disarm() noexcept override {}
  /// Stands by until the connection closes, for what poll() cannot do: waiting in the kernel, telling of a
  /// mismatch, failing. Throws ProtocolError or LinkFault.
  Task<> run();

  /// True: the signal was there and is taken.
  bool start_wait(LinkOperation& operation) noexcept;
  /// True: the bytes were there and are delivered.
  bool start_receive(LinkOperation& operation) noexcept;
  /// Forgets a wait, recv or requested get. False: bytes for it are about to come or half there, and the
  /// stream is of no use any more.
  bool forget(LinkOperation& operation) noexcept;
  /// Whether any operation waits here.
  [[nodiscard]] bool is_awaited() const noexcept;
  /// A collective starts: frames that came early may go on. Throws ProtocolError if the last one left signals
  /// behind.
  void start_collective();

 private:
  /// Brings what is staged to where it belongs, up to a frame whose time has not come. Throws ProtocolError;
  /// calls nobody but operations.
  void advance();
  /// The same; what goes wrong is left to run().
  void proceed() noexcept;
  /// Whether an operation that is being started is over at once, with what is there already.
  [[nodiscard]] bool is_over_at_once(LinkOperation& operation) noexcept;

  /// Wakes run() to throw it.
  void fail(const Error& error);
  void tell_of_mismatch() noexcept;

  void take_header();
  /// Begins with the payload of the frame at hand, if it is time.
  [[nodiscard]] bool begin_frame();
  [[nodiscard]] bool is_of_running_operation() const noexcept;
  /// Whether the frame belongs to what runs here now; false: not yet, or it is a mismatch. Throws if it never
  /// will.
  [[nodiscard]] bool is_due();
  /// Finds out where the frame's payload goes; false: nowhere yet.
  [[nodiscard]] bool aim_payload();
  void aim_at(const LinkOperation& operation);
  /// Whether the frame may begin while others are fetched: if it can be fetched itself.
  [[nodiscard]] bool may_overtake() const noexcept;
  /// Leaves the payload to the stream, which tells later. False: it is to be received here.
  [[nodiscard]] bool fetch() noexcept;
  /// Takes what was fetched. True if there was anything, or it has failed.
  bool collect() noexcept;
  [[nodiscard]] Slice checked_slice() const;
  /// The payload is complete.
  void finish_frame();
  void count(Signal signal);
  /// All bytes of such a frame are where they belong.
  void deliver(FrameType type, Signal signal);
  void finish(LinkOperation& operation) noexcept;
  void finish_receive() noexcept;

  /// Whether what comes next on the stream is wanted.
  [[nodiscard]] bool is_reading() const noexcept { return at_ == At::header || at_ == At::payload; }
  /// How much to receive together with the next header.
  [[nodiscard]] std::size_t wanted_bytes() const noexcept;
  /// One attempt to receive what comes next: bytes, 0 at the end of the stream, or minus the error number.
  [[nodiscard]] int try_receive() noexcept;
  int try_receive_header() noexcept;
  [[nodiscard]] int try_receive_payload() noexcept;
  /// Bytes came, or what a receive answered instead.
  void take_result(int result) noexcept;
  [[nodiscard]] Error broken(int result) const noexcept;

  static constexpr std::uint32_t kMostUntaken = Link::kMostUntaken;

  /// How far the stream has been read.
  enum class At : std::uint8_t {
    header,      ///< between frames, or within a header
    parked,      ///< behind the header of a frame whose time has not come
    mismatched,  ///< behind that of a frame of something that this rank does not run
    told,        ///< the same, and the owner knows
    payload,     ///< within a payload that has been given a place
    failed,      ///< for the reason in failure_, which run() throws
  };
  /// Who looks for what comes next.
  enum class Watch : std::uint8_t {
    poll,     ///< poll(), in every turn of the loop
    started,  ///< an operation that was started has just looked: the next poll() need not
    asked,    ///< still poll(), but the loop wants to sleep
    kernel,   ///< the kernel, which wakes the loop
  };

  Connection& connection_;
  FrameWriter& writer_;
  ReceiveBuffer staging_;

  At at_ = At::header;
  Watch watch_ = Watch::poll;
  FrameHeader frame_;  ///< at hand, unless at the header
  Payload payload_;
  std::optional<Error> failure_;
  /// What the stream fetches: the oldest first, at first_fetch_.
  struct Fetch {
    FrameType type{};
    Signal signal{};
  };
  std::array<Fetch, ByteStream::kMostAtOnce> fetches_;
  std::uint32_t first_fetch_ = 0;
  std::uint32_t fetch_count_ = 0;
  /// Turns of the loop in which nobody waited here.
  unsigned unasked_turns_ = 0;

  /// Operations that receive, in the order of their start; to unaimed_, their frames are being fetched.
  LinkOperation* receives_ = nullptr;
  LinkOperation* last_receive_ = nullptr;
  LinkOperation* unaimed_ = nullptr;  ///< for the next frame
  std::array<LinkOperation*, kSignals> waits_{};
  std::array<std::uint32_t, kSignals> untaken_{};
  /// The operation that is being started; null once it is over.
  const LinkOperation* starting_ = nullptr;
};

}  // namespace cohort::framed
