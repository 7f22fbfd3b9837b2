// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cohort {

class Engine;

/// When those who move bytes on an engine look whether others should have their turn: together, whenever
/// about kBytesBetweenLooks were moved. A few parts of a long move go at once where they take less than a
/// turn together: each part begins anew with every buffer, which the processor fetches ahead of.
///
/// A look reads the clock; what is little costs none. Threads: the engine's.
class Pace : Immovable {
 public:
  static constexpr std::size_t kBytesBetweenLooks = tuning::waiting::kMovedBetweenLooks;

  explicit Pace(Engine& engine) noexcept : engine_(engine) {}

  /// Whether so many bytes, or what takes as long as to copy them, may be moved before the next look. Then
  /// they count as moved.
  [[nodiscard]] bool is_little(std::size_t bytes) noexcept {
    if (moved_ + bytes > kBytesBetweenLooks) return false;
    moved_ += bytes;
    return true;
  }

  /// Looks. Never over for who waited for this turn: he does something first, whoever else has run in it.
  [[nodiscard]] bool is_turn_over(bool has_waited = false) noexcept;

  /// Whether what takes as long as to copy so many bytes may be done now; it counts as moved then.
  [[nodiscard]] bool may_do(std::size_t bytes, bool has_waited = false) noexcept {
    if (is_little(bytes)) return true;
    if (is_turn_over(has_waited)) return false;
    moved_ = bytes;
    return true;
  }

  /// Calls move(at, bytes) for what is left of `size` bytes, of which `done` are: for all at once if that is
  /// little, by what `traffic` says, and not begun; else in parts of `part` bytes each, or several. True: all
  /// is done; false: others should have their turn first. The first part that is done takes `has_waited`
  /// back.
  template <class Move>
  [[nodiscard]] bool move_awhile(std::size_t& done, std::size_t size, std::size_t part, std::size_t traffic,
                                 bool& has_waited, Move&& move) {
    const auto move_next = [&](std::size_t most) {
      const std::size_t bytes = std::min(most, size - done);
      move(done, bytes);
      done += bytes;
    };
    if (done == size) return true;
    if (done == 0 && is_little(traffic)) {
      move_next(size);
      return true;
    }
    while (done < size) {
      if (is_turn_over(std::exchange(has_waited, false))) return false;
      const bool is_full = size - done >= part * parts_at_once_;
      move_next(part * parts_at_once_);
      if (is_full) learn_from_part();
      moved_ = kBytesBetweenLooks;
    }
    return true;
  }

 private:
  /// All that went at once since the last look is done.
  void learn_from_part() noexcept;

  Engine& engine_;
  std::size_t moved_ = 0;  ///< since the last look
  TimePoint looked_at_{};
  std::size_t parts_at_once_ = 1;
};

}  // namespace cohort
