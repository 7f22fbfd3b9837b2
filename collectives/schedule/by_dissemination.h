// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/operators/list.h>
#include <cohort/collectives/schedule/blocks.h>
#include <cohort/collectives/schedule/disseminating.h>

/// The operators by phases of a Dissemination, for algorithms that differ in its order only.
namespace cohort::dissemination {

using Order = Dissemination::Order;
using Towards = Disseminating::Towards;

/// Streams: main, and two sub streams in a round. Scratch: ranks * block bytes.
inline Task<> all_gather(Exec& x, AllGather op, Order order) {
  Disseminating slices(x, order, op.send.bytes);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await x.copy(slices.own(), op.send);
  co_await x.copy(op.block(x.rank()), op.send);
  co_await slices.all_gather();
  co_await slices.unpack(block, 1);
}

inline Task<> reduce_scatter(Exec& x, ReduceScatter op, Order order, Towards towards) {
  Disseminating slices(x, order, op.recv.bytes, towards);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await slices.pack(block);
  co_await slices.reduce_scatter(x.reducer(op.combine));
  co_await x.finish_average(op.combine, slices.own());
  co_await x.copy(op.recv, slices.own());
}

/// A reduce_scatter and an all_gather of the combined slices, each by an order of its own: a rank's own slice
/// lies in the same place in both. Scratch: bytes, rounded up.
inline Task<> all_reduce(Exec& x, AllReduce op, Order order, Towards towards, Order order_back) {
  const Blocks send(op.send, x.size(), op.element_bytes);
  const Blocks recv(op.recv, x.size(), op.element_bytes);
  auto from = [&](Rank rank) { return send.filled(rank); };
  auto to = [&](Rank rank) { return recv[rank]; };
  Disseminating parts(x, order, send[0].bytes, towards);
  co_await parts.pack(from);
  co_await parts.reduce_scatter(x.reducer(op.combine));
  co_await x.finish_average(op.combine, parts.own());
  Disseminating sums(x, order_back, send[0].bytes);
  co_await sums.all_gather();
  co_await sums.unpack(to);
}

/// A scatter and an all_gather. The root takes part in both and hears from everybody in the second.
inline Task<> broadcast(Exec& x, Broadcast op, Order order) {
  const Blocks data(op.data, x.size(), op.element_bytes);
  auto from = [&](Rank rank) { return data.filled(rank); };
  auto to = [&](Rank rank) { return data[rank]; };
  Disseminating slices(x, order, data[0].bytes);
  if (x.rank() == op.root) co_await slices.pack(from);
  co_await slices.scatter(op.root);
  co_await slices.all_gather();
  if (x.rank() != op.root) co_await slices.unpack(to);
}

/// A reduce_scatter, in which everybody hears from everybody, and a gather.
inline Task<> reduce(Exec& x, Reduce op, Order order) {
  const Blocks send(op.send, x.size(), op.element_bytes);
  const Blocks recv(op.recv, x.size(), op.element_bytes);  // of the root alone
  auto from = [&](Rank rank) { return send.filled(rank); };
  auto to = [&](Rank rank) { return recv[rank]; };
  Disseminating slices(x, order, send[0].bytes);
  co_await slices.pack(from);
  co_await slices.reduce_scatter(x.reducer(op.combine));
  co_await x.finish_average(op.combine, slices.own());
  co_await slices.gather(op.root);
  if (x.rank() == op.root) co_await slices.unpack(to);
}

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

[[nodiscard]] inline Cost cost_of_all_gather(Order order, std::size_t bytes, Rank ranks) {
  return Dissemination(order, ranks).cost_of_phase(static_cast<double>(bytes));
}
[[nodiscard]] inline Cost cost_of_reduce_scatter(Order order, std::size_t bytes, Rank ranks) {
  Cost cost = cost_of_all_gather(order, bytes, ranks);
  cost.bytes_reduced = cost.bytes_moved;
  return cost;
}
[[nodiscard]] inline Cost cost_of_all_reduce(Order order, Order order_back, std::size_t bytes, Rank ranks) {
  const double slice = static_cast<double>(bytes) / ranks;
  const Cost there = Dissemination(order, ranks).cost_of_phase(slice);
  const Cost back = Dissemination(order_back, ranks).cost_of_phase(slice);
  return {.rounds = there.rounds + back.rounds,
          .bytes_moved = there.bytes_moved + back.bytes_moved,
          .bytes_reduced = there.bytes_moved,
          .messages = there.messages + back.messages,
          .bytes_by_all = there.bytes_by_all + back.bytes_by_all};
}

}  // namespace cohort::dissemination
