// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/bench/options.h>

#include <string>
#include <vector>

namespace cohort::bench {

/// Measures what the options say and prints it on standard output. Returns the exit status: 0 only if
/// everything ran and every result was right. Throws what launch() throws.
///
/// Ranks are threads of this process, or processes: those are started as `command`, which has to come back
/// here with the same options, and tell by their environment that they are ranks.
int run_job(const Options& options, const std::vector<std::string>& command);

}  // namespace cohort::bench
