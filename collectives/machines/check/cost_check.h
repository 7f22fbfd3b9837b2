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

/// Compares what was counted with what the algorithm declares, exactly where the case divides evenly, and
/// with what no algorithm can do without; adds findings to the report.
void check_cost(const Machine& machine, const AnyAlgorithm& algorithm, const CostCase& of, Report& report);

}  // namespace cohort::check
