// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <cstdint>

namespace cohort {

/// When ranks measure again what they have measured as they joined, so that whatever disturbed them then does
/// not decide for long: after about a second, two, four, ... minutes, a fiftieth of that time at most.
///
/// All ranks have to come to it together: so it is told by the number of messages. How many these are in that
/// time is estimated by how many have been, and when they are over ranks agree on how much time has passed.
class LaterMeasuring {
 public:
  struct Round {
    unsigned number = 0;  ///< from 1 on; each begins with something else
    Duration budget{};    ///< zero: it is too early
  };

  static constexpr Duration kFirst = std::chrono::seconds(1);
  static constexpr Duration kLast = std::chrono::seconds(256);  ///< then so often
  static constexpr int kPart = 50;
  static constexpr Duration kMostTime = std::chrono::milliseconds(20);
  /// What every rank's call has to have left, so that it does not fail by a peer that is held up meanwhile.
  static constexpr Duration kLeastLeft = std::chrono::seconds(1);
  /// Before how much time they take is known.
  static constexpr std::uint64_t kFirstMessages = 256;
  static constexpr std::uint64_t kGrowth = 4;  ///< at most, from one estimate to the next

  /// They have measured at message `sequence`: the message at which to look again. The same of the rest.
  [[nodiscard]] std::uint64_t begin(std::uint64_t sequence) noexcept;
  /// Nobody waits for the others in this one: a little later.
  [[nodiscard]] std::uint64_t postpone(std::uint64_t sequence) const noexcept { return sequence + 16; }
  /// A rank's call would be late: not now, and it is not asked for soon.
  [[nodiscard]] std::uint64_t put_off(std::uint64_t sequence) const noexcept {
    return sequence + kFirstMessages;
  }
  /// `passed_us`: since they measured, as all have agreed.
  [[nodiscard]] Round next(std::uint64_t sequence, double passed_us) noexcept;
  /// After next(), and what was measured.
  [[nodiscard]] std::uint64_t end_after(std::uint64_t sequence) noexcept;

 private:
  std::uint64_t measured_at_ = 0;
  std::uint64_t messages_ = kFirstMessages;  ///< until the next look; 0: they measure
  Duration wait_ = kFirst;
  unsigned rounds_ = 0;
};

}  // namespace cohort
