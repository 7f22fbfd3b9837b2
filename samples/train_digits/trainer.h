// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/cohort.h>
#include <cohort/samples/train_digits/recipe.h>

#include <filesystem>
#include <memory>

namespace cohort::samples {

/// Where a rank's time went, over all steps.
struct Timing {
  double compute_ms = 0;        ///< in forward, backward and apply
  double communication_ms = 0;  ///< in all_reduce, from a gradient's being ready to its average's being there
  double exposed_ms = 0;        ///< of that, while nothing was computed
  double step_ms = 0;           ///< from the first forward to the last weight

  /// The share of communication that took place while this rank computed.
  [[nodiscard]] double hidden() const noexcept {
    return communication_ms > 0 ? 1.0 - exposed_ms / communication_ms : 1.0;
  }
};

/// One rank of the training: a compute stream and a communication stream, tied together by one event per
/// layer.
class Trainer {
 public:
  Trainer(Communicator& comm, const std::filesystem::path& data, const Recipe& recipe);

  /// One pass over the training images; the mean loss over them.
  Task<double> train_epoch(std::size_t epoch);
  [[nodiscard]] double held_out_accuracy() { return network_.accuracy(split_.held_out); }
  [[nodiscard]] std::uint64_t parameters_hash() const { return network_.parameters_hash(); }
  /// The timing of the rank with the most exposed communication.
  Task<Timing> slowest_timing();

 private:
  void enqueue_backward(std::size_t layer);
  Task<> average_gradient(std::size_t layer);

  Communicator& comm_;
  const Recipe recipe_;
  const Split split_;
  Network network_;
  BatchSchedule schedule_;
  Stream compute_;
  Stream communication_;
  std::vector<std::unique_ptr<Event>> ready_;     ///< by layer: its gradient is computed
  std::vector<std::unique_ptr<Event>> averaged_;  ///< by layer: its gradient is averaged
  float loss_ = 0;
  Timing timing_;
  double communicating_in_step_ms_ = 0;
  double computing_in_step_ms_ = 0;
};

}  // namespace cohort::samples
