// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/tools/soak/job.h>

#include <set>
#include <span>
#include <vector>

namespace cohort::soak {

/// Whose error it is.
enum class ErrorOf : std::uint8_t {
  joining,       ///< or of who has joined, because somebody could not
  communicator,  ///< its calls and messages, and groups that are made of them
  group,
};

/// What one fault of a job may bring to ranks: docs/operate/faults.md. An error has to be explained, kind and
/// culprit, by one of them.
struct Expectation {
  std::set<ErrorKind> kinds{};             ///< of calls and messages; also of ranks that join meanwhile
  std::set<ErrorKind> kinds_of_joining{};  ///< in addition, in a communicator that not all could join
  std::set<Rank> culprits{};               ///< an error names one of them
  /// Or nobody: where none can know whom. `receiving`: who waits for anybody's message until the deadline,
  /// which fails the communicator and none of its groups.
  enum class NamesNobody : std::uint8_t { never, joining, receiving, anywhere };
  NamesNobody may_name_nobody = NamesNobody::never;
  /// A group feels it if all of these are in it; empty: it is no matter of groups.
  std::set<Rank> felt_where{};

  [[nodiscard]] bool explains_culprit(const Error& error, ErrorOf of) const;
  [[nodiscard]] bool is_felt_among(std::span<const Rank> members) const;
};

/// One for each fault that was drawn, or two where a fault has two consequences that name different ranks; as
/// one of the communicators and its groups feel it.
[[nodiscard]] std::vector<Expectation> expectations_of(const Job& job, std::size_t communicator);

}  // namespace cohort::soak
