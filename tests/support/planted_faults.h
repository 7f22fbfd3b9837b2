// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/suite.h>

#include <functional>
#include <string>
#include <vector>

namespace cohort::test {

/// A right schedule in which one task is altered, and what the checker has to say of it.
struct PlantedFault {
  std::string fault;
  std::string schedule;
  check::FindingKind kind;
  std::string names;  ///< the place that the first finding has to name
  std::function<check::Report(bool is_planted, std::uint64_t seed)> run;
};

/// All with 4 ranks; the fault is planted into the first operation of two.
const std::vector<PlantedFault>& planted_faults();

}  // namespace cohort::test
