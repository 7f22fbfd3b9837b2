// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/assert.h>

namespace cohort::test {

/// A schedule by itself, with what it needs, as an algorithm to check: its messages are never cut.
template <class Op>
[[nodiscard]] Algorithm<Op> as_algorithm(Task<> (*schedule)(Exec& x, Op op),
                                         Needs (*needs)(std::size_t, Rank)) {
  return {.name = "a schedule", .needs = needs, .schedule = schedule};
}

/// What the checker says of it.
template <class Op>
[[nodiscard]] check::Report check_schedule(Task<> (*schedule)(Exec& x, Op op),
                                           Needs (*needs)(std::size_t, Rank),
                                           const check::CheckOptions& options,
                                           const check::Fault* fault = nullptr) {
  const Algorithm<Op> algorithm = as_algorithm<Op>(schedule, needs);
  return check::check(algorithm, options, fault);
}

/// One of the library's.
template <class Op>
[[nodiscard]] const AnyAlgorithm& library(std::string_view name) {
  const AnyAlgorithm* const found = AlgorithmTable::library().find(operator_of<Op>, name);
  COHORT_ASSERT(found != nullptr, "{} has no algorithm '{}'", Op::kName, name);
  return *found;
}

}  // namespace cohort::test
