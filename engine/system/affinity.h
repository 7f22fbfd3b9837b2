// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/core_set.h>

#include <vector>

/// Where threads run. The library itself binds none but while it measures: that belongs to whoever
/// starts the job.
namespace cohort::affinity {

/// These logical processors: one of each core first, then the cores' other hardware threads. Ascending within
/// both.
[[nodiscard]] std::vector<unsigned> one_of_each_core_first(const CoreSet& processors);

/// The same of those that the calling thread may run on. Throws SystemError.
[[nodiscard]] std::vector<unsigned> usable_processors();

/// The calling thread runs only there from now on. Throws SystemError naming the processor.
void bind_thread(unsigned processor);

}  // namespace cohort::affinity
