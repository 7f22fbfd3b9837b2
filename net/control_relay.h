// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/control_message.h>
#include <cohort/net/membership.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

/// What of the words that neighbours pass on this rank has heard, and by which ways it passes them on, where
/// not all ranks are connected.
///
/// A word to all, or to a rank that is no neighbour, goes by all ways at once, and so around those that
/// compute or are stopped. Each rank passes it on once, in the order in which it came, to those that are 2^k
/// apart around the ring but for the one it has it from: not to all of a host, who have it by few steps, too.
/// By no way does a later word of the same origin come before an earlier one: its last
/// number tells what is known. Last words, which some hear from the origin itself, may: a cause counts
/// whatever came before it. Hellos, which are many, go along the binomial tree of rank 0.
///
/// Threads: the engine's. Lifetime: the membership outlives it.
class ControlRelay {
 public:
  explicit ControlRelay(const Membership& membership);

  /// As this rank's next one, to all or to that rank.
  [[nodiscard]] ControlMessage sign(ControlMessage message,
                                    std::uint32_t to = ControlMessage::kNobody) noexcept;
  /// Whether a neighbour may say it: its ranks are there, and it is of the communicator that was joined.
  [[nodiscard]] bool is_sound(const ControlMessage& message) const noexcept;
  /// Whether it is heard for the first time, and another rank's. Requires is_sound().
  [[nodiscard]] bool is_news(const ControlMessage& message) noexcept;
  /// To whom it is passed on.
  [[nodiscard]] std::span<const Rank> ways(const ControlMessage& message) const noexcept;
  /// To a rank that is next to this one since those between them have left. Throws std::bad_alloc.
  void add_way(Rank to);

 private:
  const Membership& membership_;
  std::uint64_t number_ = 0;           ///< this rank's last one
  std::vector<std::uint64_t> last_;    ///< by origin: the last number that was heard
  std::vector<bool> has_said_hello_;   ///< by origin: by all ways
  std::vector<bool> has_revoked_;      ///< by origin, which does once
  std::vector<Rank> around_;           ///< those 2^k apart, ascending, and what was added
  std::vector<Rank> tree_neighbours_;  ///< parent and children
};

/// Whether it goes along the tree.
[[nodiscard]] inline bool is_hello_of_tree(const ControlMessage& message) noexcept {
  return message.type == ControlMessage::Type::hello && message.number == 0;
}

}  // namespace cohort
