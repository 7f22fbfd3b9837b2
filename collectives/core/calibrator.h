// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/calibration/calibration.h>
#include <cohort/collectives/calibration/joint_measurement.h>
#include <cohort/collectives/calibration/later_measuring.h>
#include <cohort/collectives/core/choices.h>
#include <cohort/collectives/core/message_runner.h>
#include <cohort/collectives/job/job.h>

#include <memory>

namespace cohort {

/// When the ranks of a communicator measure together what calls are chosen by, and what comes of it: as they
/// join, and later now and then.
///
/// Threads: the engine's. Lifetime: the communicator's, whose parts it uses.
class Calibrator : Immovable {
 public:
  struct Use {
    Engine& engine;
    const Membership& membership;
    Job& job;
    bool is_group;
    Choices& choices;
    MessageRunner& messages;
    std::size_t pull_from_bytes;  ///< what the options say
  };

  explicit Calibrator(const Use& use) noexcept : use_(use) {}

  /// A group begins with what the root has measured as it was joined, which is the same on all ranks.
  void take_over_from_job() noexcept;
  /// Whether there is anything to measure as ranks join.
  [[nodiscard]] bool has_to_measure() const noexcept { return measures_host() || measures_network(); }
  /// Measures it, together with all ranks, in a part of the time until then: what would take longer has a
  /// default in its place.
  Task<> measure_as_joined(TimePoint until);
  /// All ranks have come as far: calls are chosen by what is known now.
  void joined();

  /// Choices were to hold up to the call that is over, and the others do not wait for this rank in it.
  void postpone() noexcept { use_.choices.set_end(later_.postpone(use_.messages.running().sequence)); }
  /// The same after a call of all ranks, which go on together, with equal figures. Where some rank has not
  /// enough time before `until`, nothing is measured.
  Task<> measure_again(TimePoint until);

  /// A message of at least so many bytes is read by the kernel where it may. As known when ranks joined,
  /// since they do not measure again at the same moment.
  [[nodiscard]] std::size_t least_pulled_message() const;
  /// After a failure, when no peer touches this rank's memory any more.
  void release() noexcept { calibration_.reset(); }

 private:
  /// A group of a root that is on one host.
  [[nodiscard]] bool is_known_to_job() const noexcept;
  [[nodiscard]] bool measures_host() const noexcept;
  [[nodiscard]] bool measures_network() const noexcept;
  Task<> measure_host(Duration budget);
  Task<> measure_network(Duration budget);
  [[nodiscard]] Calibration& begin_calibration();
  /// Runs a call of all ranks, outside of the numbers of the user's.
  [[nodiscard]] JointMeasurement::RunCall runs_call() const;
  [[nodiscard]] bool may_pull() const noexcept;

  const Use use_;
  bool measures_again_ = false;
  LaterMeasuring later_;
  TimePoint measured_at_{};
  PullCrossover pull_as_joined_;
  std::unique_ptr<Calibration> calibration_;  ///< peers touch its memory until this rank's is withdrawn
};

}  // namespace cohort
