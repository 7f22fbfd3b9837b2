// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace cohort::soak {

/// What became of one job.
struct JobReport {
  std::vector<std::string> complaints;  ///< empty: it did well
  std::uint64_t hash = 0;               ///< of its trace
  bool is_process_lost = false;         ///< threads hang in it for good
};

/// Runs the job of a seed in this process.
[[nodiscard]] JobReport run_job(std::uint64_t seed, bool prints_trace = false);

struct SoakOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t jobs = 1000;
  bool prints_trace = false;
};

/// Runs one job after the other, some of them twice, to see that they repeat to the last event. Prints what
/// fails with the command that repeats it, and a sum. False if anything failed.
bool run_jobs(const SoakOptions& options, std::FILE* out, std::FILE* progress);

}  // namespace cohort::soak
