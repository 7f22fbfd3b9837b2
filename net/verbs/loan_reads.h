// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/queue_pairs.h>
#include <cohort/net/verbs/regions.h>
#include <cohort/net/verbs/request.h>
#include <cohort/net/verbs/ring.h>
#include <cohort/net/verbs/send_queue.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort::verbs {

/// What the peer has lent and the device reads from there, by RDMA READ, by all queue pairs of a connection.
///
/// A read is cut into parts, one for each pair as long as they have kLeastPartBytes, and pairs take turns:
/// who follows the last one of a read begins the next.
///
/// Pairs know nothing of each other, so parts are done in any order; reads are over in the order in which
/// they were started, each once all its parts are done.
///
/// A pair has no more parts under way than the peer's device serves.
///
/// The device writes into a read's memory until the read is over, or the pairs are destroyed. Threads: the
/// engine's.
class LoanReads : Immovable {
 public:
  /// As large as the smallest loan, so that a part takes a device much longer than its request: with less,
  /// one message of 64 KiB at a time lost by being cut.
  static constexpr std::size_t kLeastPartBytes = kRingBytes;

  LoanReads(QueuePairs& pairs, SendQueue& sends) noexcept : pairs_(pairs), sends_(sends) {}

  [[nodiscard]] bool is_idle() const noexcept { return started_ == over_; }
  /// Whether a read of so many bytes may be started now.
  [[nodiscard]] bool has_room(std::size_t bytes) const noexcept;
  /// Starts to read as many bytes as there is memory, which the device may write by that key; a region that
  /// is given stays until the read is over. 0, or an error number: then a part may be under way all the same.
  [[nodiscard]] int start(const LoanTerms& from, std::span<std::byte> into, std::uint32_t key,
                          Regions::Region region) noexcept;

  struct Over {
    std::uint32_t reads = 0;
    std::uint64_t bytes = 0;
  };
  /// That part has been read. What is over with it, the oldest first.
  [[nodiscard]] Over finish(const Request& part) noexcept;
  /// The pairs have been destroyed: those that are not over never will be.
  void give_up() noexcept;

 private:
  struct Read {
    std::uint32_t bytes = 0;
    std::uint32_t parts = 0;  ///< that have not been read
    Regions::Region region{};
  };
  struct Parts {
    std::size_t bytes = 0;  ///< of each but the last one
    std::uint32_t count = 0;
  };
  /// How a read of so many bytes is cut.
  [[nodiscard]] Parts parts_of(std::size_t bytes) const noexcept;
  [[nodiscard]] int post(std::uint32_t pair, std::uint8_t read, const LoanTerms& from,
                         std::span<std::byte> into, std::uint32_t key) noexcept;

  QueuePairs& pairs_;
  SendQueue& sends_;  ///< of the first pair
  /// over_ to started_, by their number.
  std::array<Read, kMostLoans> reads_;
  std::uint32_t started_ = 0;
  std::uint32_t over_ = 0;
  std::uint32_t next_pair_ = 0;
  std::array<std::uint8_t, kMostPairs> under_way_{};  ///< parts, on each pair
};

}  // namespace cohort::verbs
