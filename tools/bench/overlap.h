// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/bench/measurement.h>

#include <string>

namespace cohort::bench {

/// How much of an all_reduce is hidden behind computing of the same length, which a pool thread or a
/// device does: each alone and both at once, in turn. The method of bench/peers/overlap.h.
struct Overlap {
  std::size_t bytes = 0;
  double comm_us = 0;
  double compute_us = 0;
  double both_us = 0;
  std::uint64_t wrong = 0;  ///< elements on this rank

  /// 0: both take as long as one after the other; 1: as long as the longer one.
  [[nodiscard]] double hidden() const noexcept;
};

/// On all ranks together. The times are the slowest rank's and the same on all.
[[nodiscard]] Task<Overlap> measure_overlap(Communicator& comm, Measurement& measurement, Computing computing,
                                            std::size_t bytes);

[[nodiscard]] std::string overlap_head(const Options& options);
[[nodiscard]] std::string overlap_row(const Options& options, const std::string& label,
                                      const Overlap& overlap);

}  // namespace cohort::bench
