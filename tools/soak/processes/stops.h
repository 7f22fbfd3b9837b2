// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/process.h>
#include <cohort/engine/world/random.h>

#include <vector>

namespace cohort::soak {

/// Stops one of the processes, continues it, waits, and so on until it is cancelled; then all go on.
/// `stops` counts. The processes outlive it.
Task<> stop_now_and_then(Engine& engine, std::vector<ChildProcess*> processes, world::Random random,
                         Duration longest, std::uint64_t& stops);

}  // namespace cohort::soak
