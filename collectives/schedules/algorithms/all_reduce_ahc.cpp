// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace all_reduce_ahc {
namespace {

/// All_reduce over hosts of any sizes: a mesh reduce_scatter inside of hosts, of which each rank gets a part
/// of every host's share of the vector; the ranks of that host get it, combine it, and send it back; a mesh
/// all_gather inside. Shares are as bandwidths of networks are, where these are known, or else the same.
///
/// Cost, m hosts of equal shares, the largest of g ranks and the smallest of s: 4 rounds; per rank up to
/// 2(g-1)/g * bytes sent inside and 2(m-1)/(m s) * bytes across, in up to (m-1)g/s messages each way; across
/// a rank of a host of q ranks with a share w sends (1+(m-2)w)/q * bytes.
///
/// Streams: main and one for each peer inside, or partner across. Scratch: 2 * bytes, or (1+m w/q) * bytes
/// where that is more. Order of reduction: by rank inside of a host, then by host (determinism D1). Source:
/// asymmetric hierarchical concatenation, as in HCCL's algorithm guide; see by_carrying.h.
Task<> all_reduce_ahc(Exec& x, AllReduce op) { return carrying::all_reduce(x, op); }

const Algorithm<AllReduce> kAlgorithm = {.name = "ahc",
                                         .levels = Levels::any_hosts,
                                         .cost = carrying::cost_of_all_reduce,
                                         .needs = carrying::needs_of_vector,
                                         .largest_piece = carrying::largest_vector,
                                         .schedule = all_reduce_ahc};

}  // namespace
}  // namespace all_reduce_ahc

AnyAlgorithm describe(const struct AllReduceAhc*) { return all_reduce_ahc::kAlgorithm; }

}  // namespace cohort
