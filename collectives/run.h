// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <functional>

namespace cohort {

/// What a rank does: a coroutine over its communicator.
using RankFunction = std::function<Task<>(Communicator&)>;

/// Joins from the environment (see docs/environment.md), runs the function and leaves. For main().
///
/// Drives an engine in the calling thread. Returns the exit status: 0, or 1 after printing the error to
/// standard error, in one line that names this rank. When the function throws, the other ranks are told why.
int run(const RankFunction& function) noexcept;

/// Runs `ranks` ranks in this process, each on a thread and an engine of its own. Returns the first failing
/// status.
int run_threads(Rank ranks, const RankFunction& function, CommunicatorOptions options = {}) noexcept;

}  // namespace cohort
