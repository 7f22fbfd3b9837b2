// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <functional>

namespace cohort {

/// What a rank does: a coroutine over its communicator.
using RankFunction = std::function<Task<>(Communicator&)>;

/// One rank on an engine of the caller's: joins, runs the function, tells the others if that throws, and
/// leaves. Throws what joining, the function and leaving do. `function` outlives the task.
Task<> run_rank(Engine& engine, CommunicatorOptions options, const RankFunction& function);

/// Joins from the environment (see docs/operate/environment.md), runs the function and leaves. For main().
///
/// Drives an engine in the calling thread. Returns the exit status: 0, or 1 after printing the error to
/// standard error, in one line that names this rank. When the function throws, the other ranks are told why.
int run(const RankFunction& function) noexcept;
/// With these options instead of all of the environment's.
int run(const RankFunction& function, CommunicatorOptions options) noexcept;

/// Runs `ranks` ranks in this process on `threads` threads, each with an engine; 0 gives every rank its own.
/// Returns the first failing status.
///
/// Ranks that share a thread take turns on its engine wherever they await: more ranks than cores meet without
/// the kernel switching between them. What one of them computes without awaiting keeps the others waiting,
/// and it must not block on them by other means.
///
/// None begins where not all threads, engines and descriptors can be had; the soft limit on open files is
/// raised as far as it needs.
int run_threads(Rank ranks, const RankFunction& function, CommunicatorOptions options,
                unsigned threads = 0) noexcept;
/// With the collectives' part of the environment (COHORT_TRANSPORT, COHORT_ALGO, ...) for options.
int run_threads(Rank ranks, const RankFunction& function, unsigned threads = 0) noexcept;

}  // namespace cohort
