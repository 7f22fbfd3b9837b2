// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/secret.h>
#include <cohort/net/rank.h>

#include <optional>
#include <string>

namespace cohort {

/// Which rank of how many this process is, and where they meet.
struct LaunchedPlace {
  Rank rank = 0;
  Rank size = 1;
  std::string address;     ///< empty where COHORT_ADDR says it
  std::string job;         ///< tells its start from others at that address; may be empty
  SecretOfOptions secret;  ///< where the ranks were given one by their launcher
  std::string launcher;    ///< for people; empty: it is alone
};

/// By the environment of mpirun, mpiexec, srun, torchrun, Kubernetes or Kubeflow, or by a rank table: all
/// ranks of a job have the same address, and no other job has it. One that says how its ranks meet goes
/// before one that does not, and srun last. Where ranks on several hosts cannot know an address they get one
/// by PMI-1 or PMIx, for which this blocks. Says once at level info what was found.
///
/// Rank 0 of 1 for one that is known to be alone; nothing where nothing is known, or nothing of how ranks
/// meet, unless COHORT_ADDR is set.
///
/// Throws InvalidArgument for ranks on several hosts that have no way to meet, for two launchers that
/// contradict each other, and for one half of what a launcher says.
[[nodiscard]] std::optional<LaunchedPlace> place_by_launcher();

/// A job of a launcher of which too little is known would silently be many jobs of one rank each.
void warn_of_unknown_place();

/// Of JOB_COMPLETION_INDEX, where COHORT_SIZE is set and COHORT_RANK is not.
[[nodiscard]] std::optional<Rank> rank_of_indexed_job();

}  // namespace cohort
