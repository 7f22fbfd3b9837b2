// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_to_all_mesh_pairwise {
namespace {

/// Two-level all_to_all: on a mesh inside of hosts every rank gets what its host has for the ranks in its
/// place of all hosts, and passes it on to these pairwise.
///
/// Cost, m hosts of q ranks: m rounds, q*q times fewer messages across than pairwise has; (q-1)m blocks sent
/// inside and (m-1)q across per rank. Streams: main and q-1 or two sub streams. Scratch: 2 p blocks. Source:
/// Traeff and Rougier, MPI collectives and datatypes for hierarchical all-to-all communication, EuroMPI 2014.
Task<> all_to_all_mesh_pairwise(Exec& x, AllToAll op) { return levels::all_to_all(x, op); }

const Algorithm<AllToAll> kAlgorithm = {.name = "mesh_pairwise",
                                        .levels = Levels::equal_hosts,
                                        .cost = levels::cost_of_all_to_all,
                                        .needs = levels::needs_of_all_to_all,
                                        .largest_piece = levels::largest_of_all_to_all,
                                        .schedule = all_to_all_mesh_pairwise};

}  // namespace
}  // namespace all_to_all_mesh_pairwise

AnyAlgorithm describe(const struct AllToAllMeshPairwise*) { return all_to_all_mesh_pairwise::kAlgorithm; }

}  // namespace cohort
