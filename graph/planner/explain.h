// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/plan.h>

#include <optional>
#include <span>
#include <string>

namespace cohort::graph {

/// What is known of a plan once it ran.
struct PlanMeasurement {
  double finish_us = 0;   ///< when the last bucket was reduced, from the beginning of the step
  double exposed_us = 0;  ///< of that, after the end of backward
};

/// A page of text: a line for each bucket, when the plan is predicted to end, what was measured, the bound
/// below which no plan comes, and what other rules come to.
[[nodiscard]] std::string explain(const Plan& plan, const Cost& cost, std::span<const Plan> others = {},
                                  const std::optional<PlanMeasurement>& measured = {});

}  // namespace cohort::graph
