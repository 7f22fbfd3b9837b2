// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/tcp/connection.h>
#include <cohort/net/tcp/frame.h>
#include <cohort/net/tcp/frame_writer.h>
#include <cohort/net/tcp/staging.h>

#include <array>
#include <optional>

namespace cohort::tcp {

/// The receiving half of a TCP link: takes frames off the stream and brings each to what waits for it.
///
/// Frames come into a staging buffer, several at a time if they are small, so that one completion serves a
/// small message. The rest of a larger payload goes straight to its destination, or, to be combined, through
/// the staging buffer. A frame whose time has not come stays where it is and nothing is read behind it: the
/// peer's sending then waits in TCP. The kernel never holds on to the memory of an operation or window:
/// pieces are taken while somebody runs here.
class FrameReader : Immovable {
 public:
  FrameReader(Connection& connection, FrameWriter& writer);

  /// Takes what has come, a piece at a time, without waiting: called in every turn of the loop. True if
  /// anything had.
  bool poll() noexcept;
  /// The loop wants to sleep. False: not yet, run() has to leave a request with the kernel first.
  [[nodiscard]] bool arm() noexcept;
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

  void take_header();
  [[nodiscard]] bool is_of_running_operation() const noexcept;
  /// Whether the frame belongs to what runs here now; false: not yet, or it is a mismatch. Throws if it never
  /// will.
  [[nodiscard]] bool is_due();
  /// Finds out where the frame's payload goes; false: nowhere yet.
  [[nodiscard]] bool begin_payload();
  void aim_at(const LinkOperation& operation);
  [[nodiscard]] Slice checked_slice() const;
  /// Moves what is staged of the payload to where it goes.
  void take_staged() noexcept;
  void fold_staged() noexcept;
  /// The payload is complete.
  void finish_frame();
  void count(Signal signal);
  void finish(LinkOperation*& place) noexcept;
  void report_mismatch() noexcept;

  /// How much to receive together with the next header.
  [[nodiscard]] std::size_t wanted_bytes() const noexcept;
  /// One attempt to receive a header and what follows it, or more of the payload: bytes, 0 at the end of the
  /// stream, or minus the error number.
  int try_receive_header() noexcept;
  [[nodiscard]] int receive_piece() noexcept;
  /// Bytes came, or what a receive answered instead.
  void take_result(int result) noexcept;
  [[nodiscard]] Error broken(int result) const;

  static constexpr std::uint32_t kMostUntaken = Link::kMostUntaken;

  Connection& connection_;
  FrameWriter& writer_;
  Staging staging_;

  /// The frame at hand: its header is taken off the staging buffer.
  bool has_frame_ = false;
  /// Its payload has been given a place.
  bool has_begun_ = false;
  FrameHeader frame_;
  std::byte* to_ = nullptr;
  std::size_t left_ = 0;
  const Reducer* reducer_ = nullptr;

  /// The frame at hand waits for this rank's schedule.
  bool is_parked_ = false;
  /// The loop wants to sleep, and the kernel has been asked to wake it.
  bool wants_sleep_ = false;
  bool is_armed_ = false;
  /// The peer runs something else, and whether the host knows.
  bool is_mismatched_ = false;
  bool is_reported_ = false;
  /// Found outside of run(), which throws it.
  std::optional<Error> failure_;
  /// An operation that was started looked at the stream: the next poll() need not.
  bool has_just_looked_ = false;
  /// Turns of the loop in which nobody waited here.
  unsigned unasked_turns_ = 0;

  LinkOperation* receive_ = nullptr;
  std::array<LinkOperation*, kSignals> waits_{};
  std::array<std::uint32_t, kSignals> untaken_{};
  /// The operation that is being started; null once it is over.
  const LinkOperation* starting_ = nullptr;
};

}  // namespace cohort::tcp
