// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/schedule/algorithm_table.h>
#include <cohort/collectives/selection/known_figures.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>
#include <cohort/engine/engine.h>
#include <cohort/net/membership.h>

#include <functional>
#include <vector>

namespace cohort {

/// What the ranks of a host measure together when their communicator is made, so that what follows is chosen
/// by figures of this host, the same on every rank. All ranks call the same, in the same order. Lifetime:
/// until the rank's memory is withdrawn, if measuring fails.
class Calibration {
 public:
  /// Runs a call of all ranks, outside of the numbers of the user's.
  using RunCall = std::function<Task<>(const Call& call)>;

  /// `known`: what earlier jobs have measured; outlives this.
  Calibration(Engine& engine, const Membership& membership, const AlgorithmTable& algorithms,
              const KnownFigures& known, RunCall run);

  /// First. What all ranks know already is not measured again. Where many ranks share a core nothing is
  /// measured: what one of them sees is mostly how long the others had it, and it takes as long.
  /// `pull_from_bytes`: what the options say; 0: nothing.
  Task<> agree_what_to_measure(double ranks_per_core, std::size_t pull_from_bytes);
  /// Where slots stop paying, for every operator that has both ways. Ends, with what is known by then, when
  /// some rank has spent 15 ms on it.
  Task<> measure_slots(SlotCrossover& slots);
  /// Where pulling begins to pay (nowhere, if nothing is measured), unless the options say. One rank that may
  /// not pull keeps all from it, and so does one whose options say never.
  Task<> measure_pull(PullCrossover& pull);

 private:
  Task<> recall();
  /// Each rank's time of a call, in us.
  Task<double> time_calls(const Call& call);
  /// A call of which a rank brings `bytes` to the meeting; shares are whole elements.
  [[nodiscard]] Call call_of(Operator op, std::size_t bytes);
  /// values[i] = the largest of all ranks.
  Task<> agree_on_slowest(std::span<double> values);
  Task<bool> probe_pull(std::span<const std::byte> own);
  /// A call on these buffers by the algorithm that serves however ranks reach each other.
  [[nodiscard]] Call agreed_call(Operator op, DataType type, std::span<const std::byte> in,
                                 std::span<std::byte> out) const;

  Engine& engine_;
  const Membership& membership_;
  const AlgorithmTable& algorithms_;
  const KnownFigures& known_;
  const RunCall run_;
  std::optional<KnownFigures::OfSlots> slots_{};  ///< that all ranks know
  std::optional<KnownFigures::OfPull> pull_{};
  bool measures_ = true;
  double pull_from_bytes_ = 0;
  double spread_ = 1;  ///< the largest of any rank's calls since measuring began; see spread_of()
  // Of this object, not of a coroutine that may end by an exception: peers touch them until withdrawn.
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
};

}  // namespace cohort
