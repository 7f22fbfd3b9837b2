// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/soak/processes/process_job.h>
#include <cohort/tools/soak/processes/process_rank.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace cohort::soak {

struct ProcessSoakOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t jobs = 6;
  ProcessJobOptions job;
  /// Starts a rank, once the job's seed stands behind it: this program with what makes it one.
  std::vector<std::string> rank_command;
  PlantedInRank planted = PlantedInRank::nothing;  ///< for tests
};

/// Runs one job after the other, and prints what was drawn for each and what came of it; of what fails, the
/// command that starts it again, too. The status: 0 when all did well, 1 if anything failed, and that of the
/// job which was ended because this program was asked to end. Threads: the main one, as launch().
int run_process_jobs(const ProcessSoakOptions& options, std::FILE* out);

}  // namespace cohort::soak
