// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// What a launcher says by its environment.
struct Launcher {
  const char* name;  ///< part of the address of its jobs on one host
  const char* rank;
  const char* size;
  const char* local_size;          ///< equal to the size: all on one host
  std::array<const char*, 2> job;  ///< tells its jobs apart; null: the launcher's process does
};

/// What one of them said to this process.
struct LaunchStatement {
  const Launcher* launcher = nullptr;
  Rank rank = 0;
  Rank size = 1;
  std::string local;          ///< how many on this host; empty where it does not say it
  std::string master;         ///< a host of rank 0 by name or number, where it says one
  bool has_exchange = false;  ///< its ranks can tell each other texts: PMI-1 or PMIx

  [[nodiscard]] bool is_on_one_host() const { return local == std::to_string(size); }
  /// Whether nothing more is needed to meet.
  [[nodiscard]] bool is_complete() const { return !local.empty() || !master.empty() || has_exchange; }
};

/// Of all launchers that name rank and size, in the order in which they count. Throws InvalidArgument where a
/// launcher's process has to start several ranks itself.
[[nodiscard]] std::vector<LaunchStatement> launch_statements();

/// Whether it comes last: with it the others start their ranks.
[[nodiscard]] bool is_outermost(const Launcher& launcher) noexcept;

/// Throws InvalidArgument where a launcher says one half of a place, or something that is no number.
void refuse_half_places();

/// A number that a launcher says; nothing where it is none.
[[nodiscard]] std::optional<Rank> launched_number(const char* variable);

}  // namespace cohort
