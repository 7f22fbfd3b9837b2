// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/loop/source.h>
#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/rank.h>
#include <cohort/net/verbs/queue_pair.h>
#include <cohort/net/verbs/ring.h>
#include <cohort/notify/notify.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

namespace cohort::verbs {

/// The bytes of one reliable connection: a ring in each direction, which the peer's device writes.
///
/// A message is copied into the own ring and from there written into the peer's, by RDMA WRITE WITH
/// IMMEDIATE; the immediate says how many bytes it was, and takes one of the receives that stand ready there.
/// What the receiver has used up it tells by immediates too: credits, so that neither ring nor receives run
/// out. The peer can write nothing but the receiving ring. Small messages are inline, every sixteenth request
/// or so asks for a completion, and completions are taken in batches, in every turn of the loop, or when the
/// completion channel wakes it.
///
/// What breaks ends the stream: the queue pair is destroyed, so that no device touches anything any more,
/// then what had completed is looked at, and then calls answer EIO. Threads: the engine's.
class VerbsStream final : public framed::ByteStream, private Source, private DeviceUser {
 public:
  /// Throws ResourceLimit, Unsupported.
  VerbsStream(Engine& engine, Device& device, Rank peer);
  ~VerbsStream() override;

  /// What the peer has to know.
  [[nodiscard]] EndPoint end_point() const noexcept;
  /// Throws LinkFault. Nothing may be sent before the peer has done the same.
  void connect(const EndPoint& theirs);

  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept override;
  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept override;
  [[nodiscard]] Task<> until_writable() override;
  [[nodiscard]] Task<> until_readable() override;
  [[nodiscard]] Task<int> receive_some(std::span<std::byte> into) override;
  [[nodiscard]] Task<> until_sent() override;
  void shutdown() noexcept override;
  [[nodiscard]] std::string explain(int error_number) const override;

 private:
  /// What a request was, in its number: of a failed one nothing else is told.
  enum class Request : std::uint8_t { receive, data, credit, end, marker };
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  /// Someone who waits for what reap() may bring.
  struct Waiter {
    Notify notify;
    bool is_waiting = false;
    void wake() noexcept;
  };

  // Source:
  bool poll() noexcept override { return reap(); }
  [[nodiscard]] bool is_waited_for() const noexcept override {
    return reader_.is_waiting || writer_.is_waiting || closer_.is_waiting;
  }
  [[nodiscard]] bool arm() noexcept override;
  void disarm() noexcept override {}

  // DeviceUser:
  void completions_came() noexcept override;
  void device_failed(std::string_view why) noexcept override;

  [[nodiscard]] bool is_over() const noexcept { return is_closed_ || !failure_.empty(); }
  [[nodiscard]] bool is_readable() const noexcept { return !received_.is_empty() || has_ended_ || is_over(); }
  [[nodiscard]] bool is_writable() const noexcept;
  [[nodiscard]] bool is_sent() const noexcept { return is_over() || done_ == posted_; }

  /// Takes what has completed, and does what that asks for. True if anything had.
  bool reap() noexcept;
  void take(const ibv_wc& completion) noexcept;
  void take_message(const ibv_wc& completion) noexcept;
  void renew_receives() noexcept;
  void tell_credit() noexcept;
  void wake_waiters() noexcept;

  /// Whether the send queue has a place left, but for the end's.
  [[nodiscard]] bool has_request() const noexcept { return posted_ - done_ < kSends - 1; }
  /// Posts an immediate, behind so many bytes of the ring from that offset. False: the stream has failed.
  [[nodiscard]] bool post(Request what, const Immediate& immediate, std::size_t offset) noexcept;
  /// The next message: as many bytes as fit.
  [[nodiscard]] std::size_t send_message(std::span<const std::byte>& first,
                                         std::span<const std::byte>& second) noexcept;

  void fail_request(const ibv_wc& completion) noexcept;
  void fail(std::string why) noexcept;

  [[nodiscard]] std::byte* send_ring() const noexcept { return memory_.get(); }
  [[nodiscard]] std::byte* receive_ring() const noexcept { return memory_.get() + kRingBytes; }

  static constexpr std::uint32_t kSends = 128;
  static constexpr std::uint32_t kSignalRequests = 16;
  static constexpr std::uint32_t kMostSignals = kSends;

  Device& device_;
  const Rank peer_;
  const std::unique_ptr<std::byte, Free> memory_;  ///< the sending ring, then the receiving one
  const Owned<ibv_mr> send_region_;
  const Owned<ibv_mr> receive_region_;
  QueuePair pair_;
  EndPoint theirs_;

  SendRing sent_;
  ReceiveRing received_;
  std::uint32_t spent_receives_ = kReceives;  ///< to be posted

  std::uint32_t posted_ = 0;  ///< send requests
  std::uint32_t done_ = 0;    ///< of these, known to be complete
  std::uint32_t unsignaled_ = 0;
  std::size_t unsignaled_bytes_ = 0;
  /// What is complete when the next signaled request is: requests and bytes, in order.
  struct Mark {
    std::uint32_t posted = 0;
    std::uint64_t bytes = 0;
  };
  std::array<Mark, kMostSignals> marks_;
  std::uint32_t first_mark_ = 0;
  std::uint32_t marks_end_ = 0;

  Waiter reader_;
  Waiter writer_;
  Waiter closer_;           ///< in until_sent()
  bool is_armed_ = false;   ///< the device will tell of the next completion
  bool has_ended_ = false;  ///< the peer has
  bool is_closed_ = false;  ///< by shutdown()
  bool is_flush_ = false;   ///< failure_ is but the consequence of another one
  std::string failure_;
};

}  // namespace cohort::verbs
