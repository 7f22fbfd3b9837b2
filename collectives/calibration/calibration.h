// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/calibration/joint_measurement.h>
#include <cohort/collectives/calibration/known_figures.h>
#include <cohort/collectives/calibration/later_measuring.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>
#include <cohort/net/host/host_group.h>

#include <vector>

namespace cohort {

/// Keeps this rank's thread on a core that no other engine of the host is kept on, where each can have one,
/// until it dies: the scheduler may leave two ranks that have just started on one core for a while, and then
/// how they wait is measured. A thread that starts meanwhile would stay there.
class OnOwnCore : Immovable {
 public:
  /// `job`: of all that may measure at the same time, so of a group that of its root.
  OnOwnCore(Platform& platform, const Membership& job);
  ~OnOwnCore();

 private:
  Platform& platform_;
  const bool is_bound_;
};

/// What the ranks of a host measure together when their communicator is made, so that what follows is chosen
/// by figures of this host, the same on every rank. All ranks call the same, in the same order. Lifetime:
/// until the rank's memory is withdrawn, if measuring fails.
class Calibration {
 public:
  /// `known`: what earlier jobs have measured; `job`: see OnOwnCore. All but `known` outlive this.
  Calibration(Engine& engine, const Membership& membership, const Membership& job,
              const AlgorithmTable& algorithms, host::HostGroup& group, KnownFigures known,
              JointMeasurement::RunCall run);

  /// First. What all ranks know already is not measured again. Where each rank can have a core, each has one
  /// until this object dies. Where many share a core nothing is measured: what one of them sees is mostly how
  /// long the others had it.
  ///
  /// `pull_from_bytes`: what the options say; 0: nothing. What is not measured within `budget`, on any rank,
  /// stays as if nothing had been, on all.
  Task<> agree_what_to_measure(double ranks_per_core, std::size_t pull_from_bytes, Duration budget);
  /// Where slots stop paying, for every operator that has both ways. Ends, with what is known by then, when
  /// some rank has spent 50 ms on it.
  Task<> measure_slots(SlotCrossover& slots);
  /// Which sizes the kernel had better copy, unless the options say. One rank
  /// that may not pull keeps all from it, and so does one whose options say never.
  Task<> measure_pull(PullCrossover& pull);
  /// Whether anything is: the same on all ranks.
  [[nodiscard]] bool measures() const noexcept { return measures_; }

  /// In place of all of these, by a communicator that has them: some of it once more, and of each time the
  /// least counts. Null: nothing is pulled, or the options say what is. `core_cache_bytes`: as all agree.
  Task<> measure_again(const LaterMeasuring::Round& round, std::size_t core_cache_bytes, PullCrossover* pull,
                       SlotCrossover& slots);

 private:
  Task<> measure_pull_again(unsigned round, std::size_t core_cache_bytes, PullCrossover& pull);
  /// A call to which a rank brings `bytes` when it arrives; shares are whole elements.
  [[nodiscard]] Call call_of(Operator op, std::size_t bytes);
  /// Writes that call's input anew, where each rank has a core.
  [[nodiscard]] JointMeasurement::Rewrite rewriting(const Call& call) const;
  /// So that no first touch of their pages is measured.
  Task<> touch_rings();
  Task<> measure_slots_of(Operator op, TimePoint until, SlotCrossover& slots);
  Task<> measure_pull_of(Operator op, PullCrossover& pull);
  Task<bool> probe_pull();
  /// Whether the kernel reads the number that begins at `address` of that rank's process, if it is this one,
  /// and writes it to this rank's word behind it.
  [[nodiscard]] bool reaches(Rank peer, std::uint64_t address, std::uint64_t number);

  Engine& engine_;
  const Membership& membership_;
  const Membership& job_;
  const AlgorithmTable& algorithms_;
  host::HostGroup& group_;
  const KnownFigures known_;
  JointMeasurement together_;
  std::optional<OnOwnCore> on_own_core_;
  std::optional<KnownFigures::OfSlots> slots_{};  ///< that all ranks know
  std::optional<KnownFigures::OfPull> pull_{};
  bool measures_ = true;
  bool are_rings_touched_ = false;
  double pull_from_bytes_ = 0;
  std::size_t most_pull_bytes_;  ///< of all that the ranks of a host give and get
  // Of this object, not of a coroutine that may end by an exception: peers touch them until withdrawn.
  std::vector<std::uint64_t> words_;  ///< a number that this rank has drawn, and one word for each rank
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
};

}  // namespace cohort
