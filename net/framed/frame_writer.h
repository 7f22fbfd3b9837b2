// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/loop/source.h>
#include <cohort/net/framed/connection.h>
#include <cohort/net/framed/frame.h>

#include <optional>
#include <span>

namespace cohort::framed {

/// The sending half of a framed link: frames of local operations in the order of their start, and replies to
/// the peer's gets.
///
/// A frame that the stream has room for goes out inside start(), over TCP with one system call, while the
/// turn of the loop lasts; the rest is sent by poll(), turn by turn. The kernel never holds on to an
/// operation's memory: each piece is copied while somebody runs here.
///
/// Payloads of operations that the stream lends whole are out of the way at once: frames behind them go out
/// meanwhile, and these operations complete, in their order, as their memory returns.
class FrameWriter final : public Source {
 public:
  explicit FrameWriter(Connection& connection) noexcept : connection_(connection) {}

  /// Sends, or queues what does not go out at once. True: all bytes are out.
  bool start(LinkOperation& operation) noexcept;
  /// Forgets an operation that has not gone out whole. False: half of it has, and the stream is of no use any
  /// more.
  bool forget(LinkOperation& operation) noexcept;
  /// Whether this operation still waits here.
  [[nodiscard]] bool holds(const LinkOperation& operation) const noexcept;

  [[nodiscard]] bool is_awaited() const noexcept { return queue_.first != nullptr || lent_.first != nullptr; }

  [[nodiscard]] bool can_reply() const noexcept { return !reply_.has_value(); }
  /// Answers a get whose slice was checked.
  void reply(const FrameHeader& request) noexcept;

  /// A frame of the peer's has come. What the peer had taken of a reply before it said that is known by now:
  /// it ends the reply before what the frame may end.
  void hear_of_reply() noexcept {
    if (is_begun_ && is_reply_ && !failure_ && connection_.is_open) (void)go_on();
  }

  /// Sends a piece of what is queued, as far as there is room: called in every turn of the loop. True if
  /// anything went out.
  bool poll() noexcept override;
  [[nodiscard]] bool is_waited_for() const noexcept override { return !is_idle() || lent_.first != nullptr; }
  /// The loop wants to sleep. False: not yet, run() has to leave a request with the kernel first.
  [[nodiscard]] bool arm() noexcept override;
  void disarm() noexcept override {}
  /// Stands by until the connection closes, for what poll() cannot do: waiting in the kernel, and failing.
  /// Throws LinkFault or ProtocolError.
  Task<> run();

 private:
  /// Operations, in order.
  struct Queue {
    LinkOperation* first = nullptr;
    LinkOperation* last = nullptr;

    void push(LinkOperation& operation) noexcept;
    /// False: it is not there.
    bool remove(LinkOperation& operation) noexcept;
    [[nodiscard]] bool holds(const LinkOperation& operation) const noexcept;
  };

  /// Whether nothing is left to be sent.
  [[nodiscard]] bool is_idle() const noexcept { return queue_.first == nullptr && !reply_; }
  [[nodiscard]] FrameHeader header_of(const LinkOperation::Request& request) const noexcept;
  void begin(const FrameHeader& header) noexcept;
  /// Sends more of what is first in line. True if anything went out.
  bool go_on() noexcept;
  /// One attempt to send more of the frame that was begun: bytes, or minus the error number.
  [[nodiscard]] int send_piece(const Slice& payload) noexcept;
  [[nodiscard]] bool is_sent(const Slice& payload) const noexcept {
    return sent_ == kFrameBytes + payload.bytes;
  }
  /// Completes what is the caller's again. True if anything is, or it has failed.
  bool collect() noexcept;
  /// An operation's frame is out; it was the first in line, or never was in it. False: it still waits.
  [[nodiscard]] bool is_over(LinkOperation& operation) noexcept;

  /// Begins the next frame in line, or goes on with the one that was begun; its payload. Requires !is_idle().
  [[nodiscard]] Slice current();
  void finish_current() noexcept;
  void fail(const Error& error) noexcept;
  /// By what a send has answered.
  void fail_by(int result) noexcept;

  Connection& connection_;

  Queue queue_;  ///< those that have not gone out whole
  Queue lent_;   ///< those whose payload is lent
  std::optional<FrameHeader> reply_;

  /// The frame that is going out.
  bool is_begun_ = false;
  bool is_reply_ = false;
  bool is_lent_ = false;
  FrameBytes header_{};
  std::size_t sent_ = 0;

  /// The loop wants to sleep, and the kernel has been asked to wake it.
  bool wants_sleep_ = false;
  bool is_armed_ = false;
  /// Found outside of run(), which throws it.
  std::optional<Error> failure_;
};

}  // namespace cohort::framed
