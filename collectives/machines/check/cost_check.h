// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/machines/check/machine.h>

namespace cohort::check {

/// The case whose cost was counted.
struct CostCase {
  const CheckOptions& options;
  std::size_t bytes;  ///< of the message
  bool is_one_piece;
};

/// Whether the cost of an algorithm for hosts of any sizes is exact there: what is cut among hosts, by their
/// bandwidths, and their ranks divides evenly, and the root is on a largest host, where networks differ on
/// the first of them. True of all others.
[[nodiscard]] bool divides_on_levels(const AnyAlgorithm& algorithm, const CheckOptions& options);

/// Whether the cost of the case is declared: all that is cut is cut into equal parts. Of operators without
/// data: always.
[[nodiscard]] bool divides_evenly(const AnyAlgorithm& algorithm, const CheckOptions& options);

/// Compares what was counted with what the algorithm declares, exactly where the case divides evenly, and
/// with what no algorithm can do without; adds findings to the report.
void check_cost(const Machine& machine, const AnyAlgorithm& algorithm, const CostCase& of, Report& report);

}  // namespace cohort::check
