// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_carrying.h>

namespace cohort {
namespace broadcast_ahc {
namespace {

/// Broadcast over hosts of any sizes: the root scatters inside of its host, each rank there sends every other
/// host a part of that one's share of the data, and an all_gather by ahc follows, so that the root hears from
/// everybody.
///
/// Cost, m hosts of equal shares, the root in one of g ranks, the smallest of s: 4 rounds; the root sends
/// 2(g-1)/g * bytes inside and 2(m-1)/(m g) * bytes across, others get up to 1/s * bytes from other hosts.
///
/// Streams: main and one for each peer inside, or partner across. Scratch: 2 * bytes. Source: van de Geijn's
/// scatter + all_gather broadcast (Barnett et al. 1994) with the levels of all_reduce_ahc.
Task<> broadcast_ahc(Exec& x, Broadcast op) { return carrying::broadcast(x, op); }

const Algorithm<Broadcast> kAlgorithm = {.name = "ahc",
                                         .levels = Levels::any_hosts,
                                         .cost = carrying::cost_of_broadcast,
                                         .needs = carrying::needs_of_vector,
                                         .largest_piece = carrying::largest_vector,
                                         .schedule = broadcast_ahc};

}  // namespace
}  // namespace broadcast_ahc

AnyAlgorithm describe(const struct BroadcastAhc*) { return broadcast_ahc::kAlgorithm; }

}  // namespace cohort
