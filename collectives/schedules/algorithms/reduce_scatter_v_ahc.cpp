// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace reduce_scatter_v_ahc {
namespace {

/// Reduce_scatter of blocks that differ over hosts of any sizes, as reduce_scatter_ahc: a rank carries as
/// many of another host's blocks as that one has for each rank of its own, or a fraction of one.
///
/// Cost, p ranks on m hosts, the largest of g ranks and the smallest of s, blocks of at most `bytes`: 2
/// rounds; per rank up to (g-1)p/g * bytes sent inside and (p-s)/s * bytes across, each step as long as its
/// largest message.
///
/// Streams: main and one for each peer inside, or partner across. Scratch: all blocks, and as much again.
/// Order of reduction: by rank inside of a host, then by host (determinism D1). Source: as all_reduce_ahc.
Task<> reduce_scatter_v_ahc(Exec& x, ReduceScatterV op) { return carrying::reduce_scatter_v(x, op); }

const Algorithm<ReduceScatterV> kAlgorithm = {.name = "ahc",
                                              .levels = Levels::any_hosts,
                                              .cost = carrying::cost_of_reduce_scatter,
                                              .needs = carrying::needs_of_reduce_scatter,
                                              .largest_piece = carrying::largest_of_reduce_scatter,
                                              .schedule = reduce_scatter_v_ahc};

}  // namespace
}  // namespace reduce_scatter_v_ahc

AnyAlgorithm describe(const struct ReduceScatterVAhc*) { return reduce_scatter_v_ahc::kAlgorithm; }

}  // namespace cohort
