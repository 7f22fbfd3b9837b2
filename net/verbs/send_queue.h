// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/queue_pair.h>
#include <cohort/net/verbs/ring.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cohort::verbs {

/// The account of what is posted on the queue pair of a connection that has the rings. Few requests ask for
/// their completion: with it, those before them are known to be complete, and what they sent of the ring.
///
/// Threads: the engine's. Lifetime: the pair and the ring outlive it.
class SendQueue {
 public:
  SendQueue(QueuePair& pair, SendRing& ring) noexcept : pair_(pair), ring_(ring) {}

  /// Whether there is a place left, but for the end's.
  [[nodiscard]] bool has_room() const noexcept { return posted_ - done_ < kSends - 1; }
  /// Whether all is known to be complete.
  [[nodiscard]] bool is_done() const noexcept { return posted_ == done_; }
  /// Whether there is a request of whose completion nothing will be heard as it is.
  [[nodiscard]] bool has_unsignaled() const noexcept { return unsignaled_ != 0; }

  /// Posts a request that sends so many bytes, and that may ask for its completion by itself. 0, or an error
  /// number.
  [[nodiscard]] int post(ibv_send_wr& request, std::size_t bytes) noexcept;
  /// The next one that asked for its completion has had it.
  void complete() noexcept;

 private:
  static constexpr std::uint32_t kSignalRequests = 16;

  /// What is complete when the next signaled request is: requests, and bytes of the ring, in order.
  struct Mark {
    std::uint32_t posted = 0;
    std::uint64_t bytes = 0;
  };

  QueuePair& pair_;
  SendRing& ring_;
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;  ///< of these, known to be complete
  std::uint32_t unsignaled_ = 0;
  std::size_t unsignaled_bytes_ = 0;
  /// By their number, whose lowest bits go on evenly where it begins anew.
  std::array<Mark, std::bit_ceil(kSends)> marks_;
  std::uint32_t first_mark_ = 0;
  std::uint32_t marks_end_ = 0;
};

}  // namespace cohort::verbs
