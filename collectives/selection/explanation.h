// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/host_plan.h>
#include <cohort/collectives/selection/selection.h>

#include <string>
#include <vector>

namespace cohort {

/// Which algorithm runs a call, and why: what `cohort explain` prints.
struct Explanation {
  struct Line {
    Candidate candidate;
    std::string note;  ///< "chosen", or why another one was
  };

  std::string_view chosen;  ///< as long as the table of algorithms lives
  Basis basis = Basis::call;
  /// Asked for; D0 also where any algorithm gives the same bits.
  Determinism determinism = Determinism::D0;
  std::string reason;  ///< in words
  /// How its bytes move between the ranks of this host, in words: CallPlan. Empty where ranks are of several.
  std::string way{};
  std::optional<double> estimate_us{};  ///< of the chosen one, where something is known
  std::vector<Line> candidates;         ///< every algorithm that could be asked for by name
};

/// Explains the choice that choose_algorithm() makes, and throws what it throws. `host`: see plan_for().
[[nodiscard]] Explanation explain_choice(const Call& call, const Reach& reach,
                                         const AlgorithmTable& algorithms, const Forced& forced,
                                         const HostPlan& host);

}  // namespace cohort
