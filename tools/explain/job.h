// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/explain/options.h>

namespace cohort::explain {

/// Makes a communicator, with all that it measures, and prints on rank 0 what it would choose. Returns the
/// exit status.
///
/// A process that its environment calls a rank joins that job; otherwise the ranks are threads of this
/// process that reach each other as processes do. Throws InvalidArgument for options that contradict the job.
int run_job(const Options& options);

}  // namespace cohort::explain
