// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/soak/job_run.h>

#include <string>
#include <vector>

namespace cohort::soak {

/// Everything that a job must not do and did, in words; empty if it did well.
///
/// Results equal what was computed otherwise. Every wait ends by its deadline. A job without faults fails
/// nowhere. With faults, all survivors of a communicator name one kind and one culprit, of those that were
/// planned. Buffers stay untouched from the end of their call on.
[[nodiscard]] std::vector<std::string> judge(JobRun& run);

/// Whether a rank that lived to the end was given an error, by a call or while it joined.
[[nodiscard]] bool has_failures(const JobRun& run);

}  // namespace cohort::soak
