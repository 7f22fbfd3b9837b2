// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/bench/options.h>

#include <optional>
#include <string>
#include <vector>

namespace cohort::bench {

/// How many ranks the job has that a launcher has started this process for, by COHORT_RANK and COHORT_SIZE;
/// nothing: there is none, or it is one of run_job().
[[nodiscard]] std::optional<Rank> ranks_of_job_around();

/// Measures what the options say and prints it on standard output. Returns the exit status: 0 only if
/// everything ran and every result was right. Throws what launch() throws.
///
/// Ranks are those of the job around this process, where there is one; else threads of it, or processes:
/// those are started as `command`, which has to come back here with the same options, and tell by their
/// environment that they are ranks.
int run_job(const Options& options, const std::vector<std::string>& command);

}  // namespace cohort::bench
