// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/calibration/joint_measurement.h>
#include <cohort/collectives/calibration/known_figures.h>
#include <cohort/collectives/selection/cost_model.h>

namespace cohort {

/// What the ranks of several hosts measure together when their communicator is made: what the way takes from
/// host to host, and from rank to rank inside of one. All ranks call the same.
///
/// Neighbours measure in pairs, all pairs at once, each rank in one at most; the slowest pair counts. Between
/// hosts where ranks of two hosts follow one another, inside where two of one do.
class NetworkCalibration {
 public:
  enum class Where : std::uint8_t { inside, between };

  /// `known`: what earlier jobs of the same hosts have measured; it and `reach` outlive this. `budget`: since
  /// all have come; what takes longer, or 0.3 s once neighbours are connected, stays as it was assumed.
  NetworkCalibration(JointMeasurement together, const Reach& reach, const KnownFigures& known,
                     Duration budget)
      : together_(std::move(together)), reach_(reach), known_(known), budget_(budget) {}

  /// The model with what was measured in place of what was assumed: the same on all ranks. 14 calls of each
  /// of four kinds, on links of neighbours, or one of each kind where one takes more than 2 ms.
  Task<CostModel> measure();

 private:
  /// Of the slowest pair; zeros where there is none of its kind.
  struct Way {
    double latency_us = 0;  ///< of a signal, with the work at both ends
    double byte_us = 0;     ///< of a large message
  };
  template <Where kWhere>
  Task<Way> time_way();
  [[nodiscard]] Call call_of(const AnyAlgorithm& algorithm) const;
  Task<> connect(const AnyAlgorithm& algorithm);
  /// 0: there was no time for it.
  Task<double> agreed_time(const AnyAlgorithm& algorithm);
  [[nodiscard]] CostModel model_by(const KnownFigures::OfNetwork& figures) const;

  JointMeasurement together_;
  const Reach& reach_;
  const KnownFigures& known_;
  const Duration budget_;
};

}  // namespace cohort
