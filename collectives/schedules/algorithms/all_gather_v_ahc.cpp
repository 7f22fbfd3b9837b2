// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace all_gather_v_ahc {
namespace {

/// All_gather of blocks that differ over hosts of any sizes, as all_gather_ahc: a rank carries as many of
/// another host's blocks as that one has for each rank of its own, or a fraction of one.
///
/// Cost, p ranks on m hosts, the largest of g ranks and the smallest of s, blocks of at most `bytes`: 2
/// rounds; per rank up to (p-s)/s * bytes received across and (g-1)p/g * bytes inside, each step as long as
/// its largest message.
///
/// Streams: main and two for each peer inside, or partner across. Scratch: all blocks. Source: as
/// all_reduce_ahc.
Task<> all_gather_v_ahc(Exec& x, AllGatherV op) { return carrying::all_gather_v(x, op); }

const Algorithm<AllGatherV> kAlgorithm = {.name = "ahc",
                                          .levels = Levels::any_hosts,
                                          .cost = carrying::cost_of_all_gather,
                                          .needs = carrying::needs_of_all_gather,
                                          .largest_piece = carrying::largest_of_all_gather,
                                          .schedule = all_gather_v_ahc};

}  // namespace
}  // namespace all_gather_v_ahc

AnyAlgorithm describe(const struct AllGatherVAhc*) { return all_gather_v_ahc::kAlgorithm; }

}  // namespace cohort
