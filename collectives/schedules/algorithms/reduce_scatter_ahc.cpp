// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace reduce_scatter_ahc {
namespace {

/// Reduce_scatter over hosts of any sizes: a mesh reduce_scatter inside of hosts, of which each rank gets a
/// part of what is for each other host; the ranks of that host get it and combine it.
///
/// Cost, p ranks on m hosts, the largest of g ranks and the smallest of s, blocks of `bytes`: 2 rounds; per
/// rank up to (g-1)p/g * bytes sent inside and (p-s)/s * bytes across.
///
/// Streams: main and one for each peer inside, or partner across. Scratch: 2 p blocks. Order of reduction: by
/// rank inside of a host, then by host (determinism D1). Source: as all_reduce_ahc.
Task<> reduce_scatter_ahc(Exec& x, ReduceScatter op) { return carrying::reduce_scatter(x, op); }

const Algorithm<ReduceScatter> kAlgorithm = {.name = "ahc",
                                             .levels = Levels::any_hosts,
                                             .cost = carrying::cost_of_reduce_scatter,
                                             .needs = carrying::needs_of_reduce_scatter,
                                             .largest_piece = carrying::largest_of_reduce_scatter,
                                             .schedule = reduce_scatter_ahc};

}  // namespace
}  // namespace reduce_scatter_ahc

AnyAlgorithm describe(const struct ReduceScatterAhc*) { return reduce_scatter_ahc::kAlgorithm; }

}  // namespace cohort
