// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/disseminating.h>
#include <cohort/collectives/schedules/operators/list.h>

/// The operators by phases of a Dissemination, for algorithms that differ in its order only.
namespace cohort::dissemination {

using Order = Dissemination::Order;
using Towards = Disseminating::Towards;

/// Streams: main, and two sub streams in a round. Scratch: ranks * block bytes.
Task<> all_gather(Exec& x, AllGather op, Order order);

Task<> reduce_scatter(Exec& x, ReduceScatter op, Order order, Towards towards);

/// A reduce_scatter and an all_gather of the combined slices, each by an order of its own: a rank's own slice
/// lies in the same place in both. Scratch: bytes, rounded up.
Task<> all_reduce(Exec& x, AllReduce op, Order order, Towards towards, Order order_back);

/// A scatter and an all_gather. The root takes part in both and hears from everybody in the second.
Task<> broadcast(Exec& x, Broadcast op, Order order);

/// A reduce_scatter, in which everybody hears from everybody, and a gather.
Task<> reduce(Exec& x, Reduce op, Order order);

/// Of a vector that is cut into a slice for each rank.
[[nodiscard]] inline Needs needs_of_vector(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = scratch_for_shares(bytes, ranks)};
}
[[nodiscard]] inline std::size_t largest_vector(std::size_t buffer_bytes, Rank) { return buffer_bytes; }
/// Of a block for each rank.
[[nodiscard]] inline Needs needs_of_blocks(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = bytes * ranks};
}
[[nodiscard]] inline std::size_t largest_block(std::size_t buffer_bytes, Rank ranks) {
  return buffer_bytes / ranks;
}

[[nodiscard]] Cost cost_of_all_gather(Order order, std::size_t bytes, Rank ranks);
[[nodiscard]] Cost cost_of_reduce_scatter(Order order, std::size_t bytes, Rank ranks);
[[nodiscard]] Cost cost_of_all_reduce(Order order, Order order_back, std::size_t bytes, Rank ranks);

}  // namespace cohort::dissemination
