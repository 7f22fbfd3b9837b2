// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/cohort.h>
#include <cohort/engine/world/settings.h>

#include <string>
#include <vector>

namespace cohort::test {

/// What one rank ended with: no error, or the one that its function threw.
struct Outcome {
  std::optional<Error> error;
};

/// Runs the function on `ranks` ranks, each on a thread and an engine of its own; expects that none throws.
/// They take each other for ranks of so many hosts, filled one after another.
void run_ranks(Rank ranks, const RankFunction& function, CommunicatorOptions options = {}, Rank hosts = 1);

/// The same with all ranks on this engine, each a host of its own where there is no shared memory.
void run_ranks_on(Engine& engine, Rank ranks, const RankFunction& function, CommunicatorOptions options = {});

/// As run_ranks() for ranks that are expected to throw: what each one got, by rank.
std::vector<Outcome> outcomes_of_ranks(Rank ranks, const RankFunction& function,
                                       CommunicatorOptions options = {}, Rank hosts = 1);

/// The same in a simulated world, where each rank is a process: waiting costs nothing, and a hang is a
/// failure at once. For what neither threads nor the kernel take part in.
void run_ranks_in_world(Rank ranks, const RankFunction& function, CommunicatorOptions options = {},
                        Rank hosts = 1);
std::vector<Outcome> outcomes_of_ranks_in_world(Rank ranks, const RankFunction& function,
                                                CommunicatorOptions options = {}, Rank hosts = 1);
/// In a world of these settings, with a rank for each of its processes; the first one's host is 0.
std::vector<Outcome> outcomes_of_ranks_in_world(const world::Settings& settings, const RankFunction& function,
                                                CommunicatorOptions options = {});

/// In a world where each rank has a core: for what ranks do only there, however many cores this host has.
void run_ranks_with_cores(Rank ranks, const RankFunction& function, CommunicatorOptions options = {});

/// A rank of a simulated world is busy for so long: nothing on its engine goes on.
void compute(Engine& engine, Duration takes);

/// What JoinOptions::host_id is for a rank then.
std::string host_of(Rank rank, Rank ranks, Rank hosts);

}  // namespace cohort::test
