// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/soak/job.h>

#include <string>

namespace cohort::soak {

/// All that was drawn for a job, in a few lines, for people.
[[nodiscard]] std::string describe(const Job& job);

}  // namespace cohort::soak
