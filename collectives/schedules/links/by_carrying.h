// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/carrying.h>
#include <cohort/collectives/schedules/operators/list.h>

/// The operators over hosts of any sizes: a mesh inside of hosts, and between them all pairs of ranks of
/// which one carries what is the other's.
///
/// Source: asymmetric hierarchical concatenation, as in HCCL's algorithm guide: every host cuts the data
/// evenly among its ranks, and between neighbouring cuts of all hosts each has one rank that takes part.
///
/// Here each host's vector is cut at the cuts of two hosts at a time, its own and the other's, so that a pair
/// exchanges one message.
///
/// A vector is cut among hosts by the bandwidths of their networks, where these are known; otherwise, and
/// where they are the same, each host has as much.
///
/// m hosts of g(1), ..., g(m) ranks, p in all, the largest of g ranks.
namespace cohort::carrying {

Task<> all_reduce(Exec& x, AllReduce op);
Task<> reduce_scatter(Exec& x, ReduceScatter op);
Task<> all_gather(Exec& x, AllGather op);
// Of blocks that differ: those of a host are cut by their number, not by their bytes, so that partners, and
// the links to them, are the same for all counts.
Task<> reduce_scatter_v(Exec& x, ReduceScatterV op);
Task<> all_gather_v(Exec& x, AllGatherV op);
/// The root scatters inside of its host, each of that host passes on what it carries, then as all_gather: the
/// root hears from everybody.
Task<> broadcast(Exec& x, Broadcast op);
/// As reduce_scatter, in which everybody hears from everybody, and the last steps of broadcast backwards.
Task<> reduce(Exec& x, Reduce op);

/// Of a vector of all: twice that, of scratch; where bandwidths differ, once and as often as the slices of
/// the largest host for each rank fill it.
[[nodiscard]] Needs needs_of_vector(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] std::size_t largest_vector(std::size_t buffer_bytes, const Hosts& hosts);
/// Of blocks, the largest of so many bytes: those of all ranks, twice where they are combined.
[[nodiscard]] Needs needs_of_reduce_scatter(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] std::size_t largest_of_reduce_scatter(std::size_t buffer_bytes, const Hosts& hosts);
[[nodiscard]] Needs needs_of_all_gather(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] std::size_t largest_of_all_gather(std::size_t buffer_bytes, const Hosts& hosts);

// With the shares that hosts have. With a root, from one in the first of the largest hosts. What leaves hosts
// is what the rank sends or gets that carries most there.
[[nodiscard]] Cost cost_of_all_reduce(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] Cost cost_of_reduce_scatter(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] Cost cost_of_all_gather(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] Cost cost_of_broadcast(std::size_t bytes, const Hosts& hosts);
[[nodiscard]] Cost cost_of_reduce(std::size_t bytes, const Hosts& hosts);

}  // namespace cohort::carrying
