// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/health.h>
#include <cohort/collectives/onehost/arrival.h>

namespace cohort {

/// How far this rank is ahead of others. A message in which it only gives is over before they have come, and
/// what is wrong with it may show only then: so there is a bound to how many of these may follow each other,
/// and who leaves after one asks first.
///
/// Threads: the engine's. Lifetime: the communicator's.
class RunAhead : Immovable {
 public:
  RunAhead(Engine& engine, const Membership& membership, const RunningOperation& running,
           Health& health) noexcept
      : engine_(engine), membership_(membership), running_(running), health_(health) {}

  /// Before each message, which has its number.
  void begin(Operator op) noexcept {
    if (!is_one_way_) joint_ = running_.sequence - 1;
    is_one_way_ = op.is_one_way();
  }
  /// Whether the last message may be over without all having come.
  [[nodiscard]] bool is_one_way() const noexcept { return is_one_way_; }

  /// Whether so many messages have followed each other in which not all heard of all that others have to be
  /// waited for. Over links: in arrival slots a rank is ahead by one at most.
  [[nodiscard]] bool is_too_long() const noexcept { return running_.sequence - joint_ > kMost; }
  /// Waits until all have come to within half of that, then runs it.
  Task<> shorten_before(Task<> next);

  /// Before this rank leaves: whether all have come to its last message, and to the same, as far as that is
  /// known in the time of a question. Fails the communicator if not. `arrival`: where it sees all ranks.
  Task<> hear_of_last(Arrival* arrival);

 private:
  Task<> shorten();

  /// All these are remembered.
  static constexpr std::uint64_t kMost = Health::kHistory / 2;

  Engine& engine_;
  const Membership& membership_;
  const RunningOperation& running_;
  Health& health_;
  std::uint64_t joint_ = 0;  ///< the last message in which all heard of all
  bool is_one_way_ = false;
};

}  // namespace cohort
