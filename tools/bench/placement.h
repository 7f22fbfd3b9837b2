// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/bench/start_line.h>

#include <optional>

namespace cohort::bench {

/// Where the hypervisor has put two virtual processors: on one core, on two that share a cache, or farther
/// apart.
enum class Distance { siblings, near, far };

[[nodiscard]] Distance distance_of(double round_trip_ns) noexcept;

/// How far the cores of rank 0 and a partner are from each other: the median round trip of a cache line, as
/// bench/peers/board.h measures it. Hypervisors move virtual processors, and everything in shared memory
/// takes longer between far ones than between near ones.
///
/// All ranks meet, call measure(), which returns false on ranks that only have to wait, and is_done() on
/// those until it says so; then round_trip_ns() is the answer on all.
class Placement : Immovable {
 public:
  /// `partner` runs on another thread than rank 0; nobody: there is no way between cores to measure.
  Placement(Board& board, Rank rank, std::optional<Rank> partner);

  /// Takes about a millisecond on rank 0 and its partner, whose threads are bound to a core each meanwhile.
  bool measure();
  [[nodiscard]] bool is_done() const noexcept;
  /// 0 when the ranks do not have two cores.
  [[nodiscard]] double round_trip_ns() const noexcept { return board_.round_trip_ns; }

 private:
  [[nodiscard]] double ping() const noexcept;
  void pong() const noexcept;

  Board& board_;
  const Rank rank_;
  const std::optional<Rank> partner_;
  std::uint64_t measurements_ = 0;
};

}  // namespace cohort::bench
