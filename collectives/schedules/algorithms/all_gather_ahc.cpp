// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace all_gather_ahc {
namespace {

/// All_gather over hosts of any sizes: a rank sends its block to each other host, cut among those that carry
/// it there, and on a mesh inside of hosts all pass on what they carry.
///
/// Cost, p ranks on m hosts, the largest of g ranks and the smallest of s, blocks of `bytes`: 2 rounds; per
/// rank up to (p-s)/s * bytes received across and (g-1)p/g * bytes inside. Streams: main and one for each
/// peer inside, or partner across. Scratch: p blocks. Source: as all_reduce_ahc.
Task<> all_gather_ahc(Exec& x, AllGather op) { return carrying::all_gather(x, op); }

const Algorithm<AllGather> kAlgorithm = {.name = "ahc",
                                         .levels = Levels::any_hosts,
                                         .cost = carrying::cost_of_all_gather,
                                         .needs = carrying::needs_of_all_gather,
                                         .largest_piece = carrying::largest_of_all_gather,
                                         .schedule = all_gather_ahc};

}  // namespace
}  // namespace all_gather_ahc

AnyAlgorithm describe(const struct AllGatherAhc*) { return all_gather_ahc::kAlgorithm; }

}  // namespace cohort
