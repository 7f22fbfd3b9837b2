// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>

#include <string>
#include <vector>

namespace cohort::test {

/// A schedule with one mistake, and what the checker has to say of it.
struct WrongSchedule {
  std::string mistake;
  check::FindingKind kind;
  std::string names;  ///< the place that the first finding has to name
  check::Report (*run)(const check::CheckOptions& options);
};

/// Mistakes that are no alteration of a single task of a right schedule.
const std::vector<WrongSchedule>& wrong_schedules();

/// A right one that nothing in the library has the form of: all_gather by puts, through the peers' ccl_in.
Task<> all_gather_by_put(Exec& x, AllGather op);

/// For any of them.
Needs all_links(std::size_t bytes, Rank ranks);

}  // namespace cohort::test
