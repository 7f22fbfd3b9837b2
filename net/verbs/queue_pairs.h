// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/queue_pair.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cohort::verbs {

/// One end of a connection: its queue pairs and the completion queue that they share. The first pair has the
/// rings, and reads; the others only read, so that they need no receives, and nothing of theirs is to be
/// accounted for but reads.
///
/// Threads: the engine's. Lifetime: the device outlives it. What was posted may be touched by the device
/// until its completion, or until destroy() has returned.
class QueuePairs : Immovable {
 public:
  /// So many, at least one. Throws ResourceLimit or Unsupported.
  QueuePairs(Device& device, DeviceUser& user, std::uint32_t pairs);

  [[nodiscard]] std::uint32_t count() const noexcept { return 1 + static_cast<std::uint32_t>(more_.size()); }
  [[nodiscard]] QueuePair& first() noexcept { return first_; }
  [[nodiscard]] QueuePair& operator[](std::uint32_t i) noexcept { return i == 0 ? first_ : *more_[i - 1]; }

  /// Reads of the other end's memory that each may have under way.
  [[nodiscard]] std::uint32_t most_reads() const noexcept { return first_.most_reads(); }

  /// What the other end has to know of them.
  void tell(EndPoint& end) const noexcept;
  /// As many as both ends have; the others are given back. Throws LinkFault.
  void connect(const EndPoint& theirs);

  /// How many completions there were, at most as many as there is room for; minus an error number.
  [[nodiscard]] int poll(std::span<ibv_wc> completions) noexcept;
  /// The device tells its user of the next completion. 0, or an error number.
  [[nodiscard]] int ask_for_event() noexcept;

  /// Of all of them; see QueuePair.
  void stop() noexcept;
  void destroy() noexcept;
  [[nodiscard]] bool is_destroyed() const noexcept { return first_.is_destroyed(); }

 private:
  const Library& library_;
  const Owned<ibv_cq> completions_;
  QueuePair first_;
  std::vector<std::unique_ptr<QueuePair>> more_;
};

}  // namespace cohort::verbs
