// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace reduce_ahc {
namespace {

/// Reduce over hosts of any sizes: a reduce_scatter by ahc, and all send their slices to those who carry them
/// on the root's host, which send it all that they carry.
///
/// Cost, m hosts of equal shares, the root in one of g ranks, the smallest of s: 4 rounds; the root gets
/// 2(g-1)/g * bytes inside and 2(m-1)/(m g) * bytes across, others send up to 1/s * bytes to other hosts, and
/// (1 - 1/(m g)) * bytes are reduced.
///
/// Streams: main and one for each peer inside, or partner across. Scratch: 2 * bytes. Order of reduction: by
/// rank inside of a host, then by host (determinism D1). Source: as all_reduce_ahc, with a gather at the end.
Task<> reduce_ahc(Exec& x, Reduce op) { return carrying::reduce(x, op); }

const Algorithm<Reduce> kAlgorithm = {.name = "ahc",
                                      .levels = Levels::any_hosts,
                                      .cost = carrying::cost_of_reduce,
                                      .needs = carrying::needs_of_vector,
                                      .largest_piece = carrying::largest_vector,
                                      .schedule = reduce_ahc};

}  // namespace
}  // namespace reduce_ahc

AnyAlgorithm describe(const struct ReduceAhc*) { return reduce_ahc::kAlgorithm; }

}  // namespace cohort
