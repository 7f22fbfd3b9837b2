// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/schedule/algorithm_table.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>
#include <cohort/engine/engine.h>
#include <cohort/net/membership.h>

#include <functional>

namespace cohort {

/// What the ranks of a host measure together when their communicator is made, so that what follows is chosen
/// by figures of this host, the same on every rank. All ranks call the same, in the same order.
class Calibration {
 public:
  /// Runs a call of all ranks, outside of the numbers of the user's.
  using RunCall = std::function<Task<>(const Call& call)>;

  Calibration(Engine& engine, const Membership& membership, const AlgorithmTable& algorithms, RunCall run);

  /// First. Where many ranks share a core nothing is measured: what one of them sees is mostly how long the
  /// others had it, and it takes as long. `pull_from_bytes`: what the options say; 0: nothing.
  Task<> agree_what_to_measure(double ranks_per_core, std::size_t pull_from_bytes);
  /// Where slots stop paying, for every operator that has both ways. Ends, with what is known by then, when
  /// some rank has spent 15 ms on it.
  Task<> measure_slots(SlotCrossover& slots);
  /// Where pulling begins to pay (nowhere, if nothing is measured), unless the options say. One rank that may
  /// not pull keeps all from it, and so does one whose options say never.
  Task<> measure_pull(PullCrossover& pull);

 private:
  /// Each rank's time of a call, in us.
  Task<double> time_calls(const Call& call);
  /// values[i] = the largest of all ranks.
  Task<> agree_on_slowest(std::span<double> values);
  Task<bool> probe_pull(std::span<const std::byte> own);
  /// A call on these buffers by the algorithm that serves however ranks reach each other.
  [[nodiscard]] Call agreed_call(Operator op, DataType type, std::span<const std::byte> in,
                                 std::span<std::byte> out) const;

  Engine& engine_;
  const Membership& membership_;
  const AlgorithmTable& algorithms_;
  const RunCall run_;
  bool measures_ = true;
  double pull_from_bytes_ = 0;
};

}  // namespace cohort
