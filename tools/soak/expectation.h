// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/tools/soak/job.h>

#include <set>
#include <span>
#include <vector>

namespace cohort::soak {

/// What one fault of a job may bring to ranks: docs/faults.md. An error has to be explained, kind and
/// culprit, by one of them.
struct Expectation {
  std::set<ErrorKind> kinds{};             ///< of calls and messages; also of ranks that join meanwhile
  std::set<ErrorKind> kinds_of_joining{};  ///< in addition, in a communicator that not all could join
  std::set<Rank> culprits{};               ///< an error names one of them
  /// Or nobody: where none can know whom.
  enum class NamesNobody : std::uint8_t { never, joining, anywhere } may_name_nobody = NamesNobody::never;
  /// A group feels it if all of these are in it; empty: it is no matter of groups.
  std::set<Rank> felt_where{};

  /// `is_of_joining`: what was thrown while ranks joined, or because some could not.
  [[nodiscard]] bool explains_culprit(const Error& error, bool is_of_joining) const {
    if (error.culprit()) return culprits.contains(*error.culprit());
    return is_of_joining ? may_name_nobody != NamesNobody::never : may_name_nobody == NamesNobody::anywhere;
  }
  [[nodiscard]] bool is_felt_among(std::span<const Rank> members) const;
};

/// One for each fault that was drawn, or two where a fault has two consequences that name different ranks.
[[nodiscard]] std::vector<Expectation> expectations_of(const Job& job);

}  // namespace cohort::soak
