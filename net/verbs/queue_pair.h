// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort::verbs {

/// What the two ends of a connection tell each other about theirs, over an authenticated connection.
struct EndPoint {
  static constexpr std::size_t kBytes = 64;

  std::uint32_t number = 0;  ///< of the queue pair, 24 bits
  std::uint32_t packet = 0;  ///< the first packet's number, 24 bits
  std::uint32_t key = 0;     ///< of the ring
  std::uint64_t ring = 0;    ///< its address there
  std::uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_gid gid{};
  std::uint16_t reads = 1;  ///< of its memory that it lets be under way, at most kMostLoans
};
/// Little-endian.
[[nodiscard]] std::array<std::byte, EndPoint::kBytes> encode(const EndPoint& end) noexcept;
/// Throws ProtocolError for anything that encode() does not write, another ring's size included.
[[nodiscard]] EndPoint decode(std::span<const std::byte, EndPoint::kBytes> bytes);

/// A reliable connection's end: a queue pair and its completion queue.
///
/// Threads: the engine's. Lifetime: the device outlives it. What was posted may be touched by the device
/// until its completion, or until destroy() has returned.
class QueuePair : Immovable {
 public:
  /// Ready to be connected. Throws ResourceLimit or Unsupported.
  QueuePair(Device& device, DeviceUser& user, int sends, int receives);

  [[nodiscard]] std::uint32_t number() const noexcept { return pair_->qp_num; }
  [[nodiscard]] std::uint32_t first_packet() const noexcept { return first_packet_; }
  [[nodiscard]] std::size_t most_inline_bytes() const noexcept { return inline_bytes_; }
  /// Reads of this end's memory that its device lets be under way.
  [[nodiscard]] std::uint16_t reads_served() const noexcept;
  /// Reads of the other end's memory that may be under way.
  [[nodiscard]] std::uint32_t most_reads() const noexcept { return most_reads_; }
  /// From now on both directions work, once the other end has done the same. Throws LinkFault.
  void connect(const EndPoint& theirs);

  /// 0, or an error number.
  [[nodiscard]] int post_send(ibv_send_wr& request) noexcept;
  /// So many requests to receive, at most kReceives, none of which has memory.
  [[nodiscard]] int post_receives(std::uint32_t count) noexcept;
  /// How many completions there were, at most as many as there is room for; minus an error number.
  [[nodiscard]] int poll(std::span<ibv_wc> completions) noexcept;
  /// The device tells its user of the next completion. 0, or an error number.
  [[nodiscard]] int ask_for_event() noexcept;

  /// Nothing more is carried out, in either direction, but what is under way. Completions can be polled.
  void stop() noexcept;
  /// The device touches nothing of this any more, in either direction, when it returns; completions that were
  /// not polled are lost. Idempotent.
  void destroy() noexcept { pair_.reset(); }
  [[nodiscard]] bool is_destroyed() const noexcept { return !pair_; }

 private:
  [[nodiscard]] ibv_ah_attr path_to(const EndPoint& theirs) const noexcept;
  void change(ibv_qp_attr& attributes, int mask, std::string_view into);

  Device& device_;
  const Library& library_;
  const std::uint32_t first_packet_;
  std::size_t inline_bytes_ = 0;
  std::uint32_t most_reads_ = 1;
  Owned<ibv_cq> completions_;
  Owned<ibv_qp> pair_;
};

}  // namespace cohort::verbs
