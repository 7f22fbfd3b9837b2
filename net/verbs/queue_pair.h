// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/device.h>
#include <cohort/net/verbs/end_point.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::verbs {

/// One end of a reliable connection of a device's.
///
/// Threads: the engine's. Lifetime: the device and the completion queue outlive it. What was posted may be
/// touched by the device until its completion, or until destroy() has returned.
class QueuePair : Immovable {
 public:
  /// What it is for: requests that may be under way, bytes that go with one, and what the other end's device
  /// may do here.
  struct Use {
    std::uint32_t sends = 1;
    std::uint32_t receives = 1;
    std::uint32_t inline_bytes = 0;  ///< wanted
    unsigned access = 0;             ///< IBV_ACCESS_REMOTE_*
  };

  /// Ready to be connected. Throws ResourceLimit or Unsupported.
  QueuePair(Device& device, DeviceUser& user, ibv_cq* completions, const Use& use);

  [[nodiscard]] std::uint32_t number() const noexcept { return pair_->qp_num; }
  [[nodiscard]] std::uint32_t first_packet() const noexcept { return first_packet_; }
  [[nodiscard]] std::size_t most_inline_bytes() const noexcept { return inline_bytes_; }
  /// Reads of this end's memory that its device lets be under way.
  [[nodiscard]] std::uint16_t reads_served() const noexcept;
  /// Reads of the other end's memory that may be under way.
  [[nodiscard]] std::uint32_t most_reads() const noexcept { return most_reads_; }
  /// With that pair of the other end: from now on both directions work, once that has done the same. Throws
  /// LinkFault.
  void connect(const EndPoint& theirs, const EndPoint::Pair& pair);

  /// 0, or an error number.
  [[nodiscard]] int post_send(ibv_send_wr& request) noexcept;
  /// So many requests to receive, at most kReceives, none of which has memory.
  [[nodiscard]] int post_receives(std::uint32_t count) noexcept;

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
  Owned<ibv_qp> pair_;
};

}  // namespace cohort::verbs
