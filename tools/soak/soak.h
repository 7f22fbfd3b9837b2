// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/soak/job.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace cohort::soak {

/// What became of one job.
struct JobReport {
  std::vector<std::string> complaints;  ///< empty: it did well
  std::uint64_t hash = 0;               ///< of its trace
  bool is_process_lost = false;         ///< threads hang in it for good
  bool has_failed = false;              ///< some call did, as it had to
};

/// Runs a job in this process.
[[nodiscard]] JobReport run_job(Job job);

struct SoakOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t jobs = 1000;
  std::optional<sim::Topology> topology;  ///< of all jobs
  bool prints_jobs = false;               ///< all that was drawn for each, before it runs
  bool prints_trace = false;
  Planted planted;  ///< for tests
};

/// Runs one job after the other, some of them twice, to see that they repeat to the last event. Prints what
/// fails with all that was drawn and the seed that repeats it, and a sum. False if anything failed.
bool run_jobs(const SoakOptions& options, std::FILE* out, std::FILE* progress);

}  // namespace cohort::soak
