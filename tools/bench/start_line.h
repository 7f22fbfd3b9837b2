// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/tools/bench/options.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cohort::bench {

/// CLOCK_MONOTONIC, the same in all processes of a host.
[[nodiscard]] inline std::int64_t now_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What the ranks of a measurement share besides the communicator under test: the start line, and the samples
/// of each. Lies in memory that all of them map; all zero is its start. Only touched pages exist.
struct Board {
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> entered{0};  ///< how often this rank has entered a barrier that is verified
    std::uint64_t wrong = 0;                ///< elements of the point being measured
    unsigned processor = 0;                 ///< of ranks 0 and 1: where they measure the way between cores
    std::atomic<int> runs_on{0};            ///< the processor, where ranks share them, at the start line
    std::array<double, kMostIterations> sample_us{};
  };

  alignas(64) std::atomic<std::uint64_t> arrived{0};
  // Written before the release below. A fast rank 0 may arrive at the next crossing before a slow rank has
  // read the answer of this one, but not at the one after: hence two answers, by parity.
  std::int64_t start_ns = 0;
  std::array<bool, 2> stop{};
  alignas(64) std::atomic<std::uint32_t> released{0};
  alignas(64) std::atomic<std::uint64_t> ping{0};
  alignas(64) std::atomic<std::uint64_t> pong{0};
  alignas(64) std::atomic<std::uint64_t> calibrated{0};
  double round_trip_ns = 0;
  std::array<Slot, kMostRanks> slots{};
};

/// Brings all ranks to one point at one time without the communicator under test, as bench/peers/board.h does
/// for other libraries: figures compare only if the start is the same.
///
/// One crossing: arrive(), is_released() until it says so, leave(). Between two polls the caller lets its
/// engine take a turn: a peer that is not here yet may wait for bytes that this rank has still to send.
///
/// Where each rank has a processor, polls spin, and all leave at a time that the last one has set, so that
/// nobody has a head start.
///
/// Where they do not, polls yield, and each leaves as it is scheduled: an operation has begun there when the
/// last one had come, since whoever leaves first is at work on it while others are still to be scheduled.
///
/// Ranks that share an engine poll once: the one that is missing needs the turn.
class StartLine : Immovable {
 public:
  enum class Polls { spin, yield, once };

  /// `processors`: that all ranks may use together.
  StartLine(Board& board, Rank rank, Rank ranks, Polls polls, std::size_t processors) noexcept
      : board_(board), rank_(rank), ranks_(ranks), polls_(polls), processors_(processors) {}

  /// Rank 0's `stop` is everybody's answer.
  void arrive(bool stop) noexcept;
  /// Polls for some microseconds; true once all ranks have arrived.
  [[nodiscard]] bool is_released() const noexcept;
  /// Waits for the common start. The answer of rank 0.
  bool leave() const noexcept;
  /// When what comes now has begun, for this rank. After leave().
  [[nodiscard]] std::int64_t start_ns() const noexcept {
    return polls_ == Polls::spin ? now_ns() : board_.start_ns;
  }

  [[nodiscard]] Rank arrived() const noexcept;
  /// Whether no processor had more ranks to carry than it has to, when they arrived last.
  [[nodiscard]] bool is_spread() const;

 private:
  Board& board_;
  const Rank rank_;
  const Rank ranks_;
  const Polls polls_;
  const std::size_t processors_;
  std::uint32_t generation_ = 0;
};

}  // namespace cohort::bench
