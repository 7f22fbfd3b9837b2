// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/calibration/joint_measurement.h>
#include <cohort/collectives/calibration/known_figures.h>
#include <cohort/collectives/selection/cost_model.h>

#include <functional>

namespace cohort {

/// What the ranks of several hosts measure together when their communicator is made: what the way takes from
/// host to host, and from rank to rank inside of one. All ranks call the same.
///
/// Neighbours measure in pairs, all pairs at once, each rank in one at most; the slowest pair counts. Between
/// hosts where ranks of two hosts follow one another, inside where two of one do. Where all share one
/// machine's cores, pairs would measure each other's work: the first one stands for all.
class NetworkCalibration {
 public:
  /// Which neighbours measure: of two hosts or of one, all such pairs or the first.
  struct Pairs {
    bool share_host = false;
    bool is_first_only = false;
  };
  /// As Transport::use_connections().
  using UseConnections = std::function<void(unsigned spread_over, unsigned made)>;

  /// `known`: what earlier jobs of the same hosts have measured; it and `reach` outlive this. `budget`: since
  /// all have come; what takes longer, or 0.3 s once neighbours are connected, stays as it was assumed.
  /// `use_connections`: null where this rank was told how many there are of each lane.
  NetworkCalibration(JointMeasurement together, const Reach& reach, const KnownFigures& known,
                     Duration budget, UseConnections use_connections)
      : together_(std::move(together)),
        reach_(reach),
        known_(known),
        budget_(budget),
        use_connections_(std::move(use_connections)) {}

  /// The model with what was measured in place of what was assumed: the same on all ranks. 14 calls of each
  /// of four kinds, on links of neighbours, or one of each kind where one takes more than 2 ms; and, if some
  /// rank measures connections and hosts share no cores, three messages of up to 4 MiB over one
  /// and over several by turns, and again if several win.
  Task<CostModel> measure();

 private:
  /// Of the slowest pair; zeros where there is none of its kind.
  struct Way {
    double latency_us = 0;  ///< of a signal, with the work at both ends
    double byte_us = 0;     ///< of a large message
  };
  struct Ways {
    Way between;
    Way inside;
  };
  template <Pairs kPairs>
  Task<Way> time_way();
  template <bool kIsFirstOnly>
  Task<Ways> time_ways();
  [[nodiscard]] Call call_of(const AnyAlgorithm& algorithm) const;
  Task<> connect(const AnyAlgorithm& algorithm);
  /// 0: there was no time for it.
  Task<double> agreed_time(const AnyAlgorithm& algorithm);
  /// Over which connections what is large is spread, and what a byte takes then; 0: there was no time.
  struct Spread {
    double connections = 1;
    double byte_us = 0;
  };
  /// More than one only if these carry clearly more, between all pairs. `byte_us`: over one, of what is
  /// smaller; where that is much, nothing is measured.
  Task<Spread> best_connections(double byte_us);
  void use(unsigned spread_over, unsigned made) const {
    if (use_connections_) use_connections_(spread_over, made);
  }
  [[nodiscard]] CostModel model_by(const KnownFigures::OfNetwork& figures) const;

  JointMeasurement together_;
  const Reach& reach_;
  const KnownFigures& known_;
  const Duration budget_;
  const UseConnections use_connections_;
};

}  // namespace cohort
