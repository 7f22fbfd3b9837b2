// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

/// Where threads run. The library itself binds none but while it measures: that belongs to whoever
/// starts the job.
namespace cohort::affinity {

/// Logical processors that the calling thread may run on: one of each core first, then the cores' other
/// hardware threads. Ascending within both.
[[nodiscard]] std::vector<unsigned> usable_processors();

/// The calling thread runs only there from now on. Throws SystemError naming the processor.
void bind_thread(unsigned processor);

}  // namespace cohort::affinity
