// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace reduce_mesh_nhr {
namespace {

using dissemination::Order;

Task<> across(Exec& x, Reduce op) { return dissemination::reduce(x, op, Order::farthest_first); }

Cost cost_across(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return figures_of_combine_and_gather(Order::farthest_first, ranks).cost(n / ranks).copying(2 * n);
}

/// Two-level reduce: a mesh reduce_scatter inside of hosts, nhr reduces across them, of 1/q of the data among
/// the ranks in each place, to those of the root's host, which send it theirs.
///
/// Cost, m hosts of q ranks: 2 + 2 ceil(log2 m) rounds; per rank (q-1)/q * bytes sent inside and (m-1)/p *
/// bytes across, twice these received by the root, and (p-1)/p * bytes reduced.
///
/// Streams: main and q-1 or two sub streams. Scratch: bytes. Order of reduction: by rank inside of a host,
/// then as nhr (determinism D1). Source: as all_reduce_mesh_nhr, with a gather at the end (Thakur,
/// Rabenseifner, Gropp 2005, section 4.4).
Task<> reduce_mesh_nhr(Exec& x, Reduce op) { return levels::reduce(x, op, across); }

Cost cost(std::size_t bytes, const Hosts& hosts) { return levels::cost_of_reduce(cost_across, bytes, hosts); }

const Algorithm<Reduce> kAlgorithm = {.name = "mesh_nhr",
                                      .levels = Levels::equal_hosts,
                                      .cost = cost,
                                      .needs = levels::needs_of_vector,
                                      .largest_piece = levels::largest_vector,
                                      .schedule = reduce_mesh_nhr};

}  // namespace
}  // namespace reduce_mesh_nhr

AnyAlgorithm describe(const struct ReduceMeshNhr*) { return reduce_mesh_nhr::kAlgorithm; }

}  // namespace cohort
