// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/suite.h>

#include <functional>
#include <string>
#include <vector>

namespace cohort::test {

/// A mistake that a right schedule bears in many cases, and that shows only in some: with other numbers of
/// ranks, a remainder, another root, several pieces, in place, with another type or operator.
struct HiddenFault {
  std::string fault;
  const AnyAlgorithm* algorithm = nullptr;
  check::CheckOptions harmless;  ///< passes, although the fault is there
  check::CheckOptions shows;
  check::FindingKind kind{};
  std::string names;  ///< the place that the first finding has to name
  /// In every task of every rank, as the case makes it.
  std::function<check::Fault(const check::CheckOptions&)> plant;

  [[nodiscard]] check::Report run(const check::CheckOptions& options) const {
    const check::Fault fault_here = plant(options);
    return check::check(*algorithm, options, &fault_here);
  }
};

const std::vector<HiddenFault>& hidden_faults();

}  // namespace cohort::test
