// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <optional>
#include <string>

namespace cohort {

/// Which rank of how many this process is, and where they meet.
struct LaunchedPlace {
  Rank rank = 0;
  Rank size = 1;
  std::string address;  ///< among ranks of one host; empty where COHORT_ADDR says it
};

/// By the environment of mpirun, mpiexec, srun or torchrun: all ranks of a job have the same address, and no
/// other job of this host has it. One that says on how many hosts goes before one that does not, and srun
/// last.
///
/// Rank 0 of 1 for one that is known to be alone; nothing where nothing is known of the hosts, unless
/// COHORT_ADDR is set.
///
/// Throws InvalidArgument for ranks on several hosts without COHORT_ADDR, and for two launchers that
/// contradict each other.
[[nodiscard]] std::optional<LaunchedPlace> place_by_launcher();

/// A job of a launcher of which too little is known would silently be many jobs of one rank each.
void warn_of_unknown_place();

}  // namespace cohort
