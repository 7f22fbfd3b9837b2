// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/control_message.h>

#include <cstddef>
#include <list>
#include <span>

namespace cohort {

/// What one peer is yet to be told, since its connection has no room: in order, and no more of it than is
/// worth telling.
///
/// A question, or what a rank says of itself or of another one, stands for the earlier one of its kind, by
/// the same rank, in the same group. Of groups that were made and given up again before the peer has heard of
/// them, the last ones are told. What else there is has a bound in the number of groups.
///
/// Threads: one engine.
class ControlQueue {
 public:
  /// Of messages: the first three and the last two words of each group, and another one.
  static constexpr std::size_t kMost = 6 * kMostGroups;
  /// Of groups that the peer has not heard of, and that are over.
  static constexpr std::size_t kMostGivenUp = 16;

  [[nodiscard]] bool is_empty() const noexcept { return messages_.empty(); }
  [[nodiscard]] bool is_full() const noexcept { return messages_.size() >= kMost; }
  [[nodiscard]] std::size_t size() const noexcept { return messages_.size(); }

  /// The last one. `sent_bytes`: what has gone out of it already, where it is the only one. False, and it is
  /// not kept: the queue is full, or there is no memory.
  [[nodiscard]] bool push(const ControlMessage& message, std::size_t sent_bytes = 0) noexcept;
  /// Of the first one. Requires one.
  [[nodiscard]] std::span<const std::byte> unsent() const noexcept;
  void drop_sent(std::size_t bytes) noexcept;
  void clear() noexcept;

 private:
  struct Waiting {
    ControlMessage message;
    bool is_of_given_up = false;  ///< an invite, to a group whose revoke and goodbye wait behind it
  };
  using Place = std::list<Waiting>::iterator;

  /// The first one that may still be dropped: not what is half sent.
  [[nodiscard]] Place first_unsent() noexcept;
  Place drop(Place at) noexcept;
  template <class Predicate>
  void drop_if(const Predicate& predicate) noexcept;
  void drop_superseded_by(const ControlMessage& message) noexcept;
  void note_given_up(GroupNumber group) noexcept;

  std::list<Waiting> messages_;
  std::size_t sent_bytes_ = 0;  ///< of the first one
  std::size_t invites_ = 0;     ///< among them
  std::size_t given_up_ = 0;    ///< of these
};

}  // namespace cohort
