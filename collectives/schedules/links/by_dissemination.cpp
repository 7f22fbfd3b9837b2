// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/by_dissemination.h>

#include <cohort/collectives/schedules/blocks.h>

namespace cohort::dissemination {

Task<> all_gather(Exec& x, AllGather op, Order order) {
  Disseminating slices(x, order, op.send.bytes);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await x.copy(slices.own(), op.send);
  co_await x.copy(op.block(x.rank()), op.send);
  co_await slices.all_gather();
  co_await slices.unpack(block, 1);
}

Task<> reduce_scatter(Exec& x, ReduceScatter op, Order order, Towards towards) {
  Disseminating slices(x, order, op.recv.bytes, towards);
  auto block = [&](Rank rank) { return op.block(rank); };
  co_await slices.pack(block);
  co_await slices.reduce_scatter(x.reducer(op.combine));
  co_await x.finish_average(op.combine, slices.own());
  co_await x.copy(op.recv, slices.own());
}

Task<> all_reduce(Exec& x, AllReduce op, Order order, Towards towards, Order order_back) {
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

Task<> broadcast(Exec& x, Broadcast op, Order order) {
  const Blocks data(op.data, x.size(), op.element_bytes);
  auto from = [&](Rank rank) { return data.filled(rank); };
  auto to = [&](Rank rank) { return data[rank]; };
  Disseminating slices(x, order, data[0].bytes);
  if (x.rank() == op.root) co_await slices.pack(from);
  co_await slices.scatter(op.root);
  co_await slices.all_gather();
  if (x.rank() != op.root) co_await slices.unpack(to);
}

Task<> reduce(Exec& x, Reduce op, Order order) {
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

Cost cost_of_all_gather(Order order, std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Dissemination(order, ranks).cost_of_phase(n).copying(n * (ranks + 1.0));
}

Cost cost_of_reduce_scatter(Order order, std::size_t bytes, Rank ranks) {
  Cost cost = cost_of_all_gather(order, bytes, ranks);
  cost.bytes_reduced = cost.bytes_moved;
  return cost;
}

Cost cost_of_all_reduce(Order order, Order order_back, std::size_t bytes, Rank ranks) {
  const double slice = static_cast<double>(bytes) / ranks;
  const Cost there = Dissemination(order, ranks).cost_of_phase(slice);
  const Cost back = Dissemination(order_back, ranks).cost_of_phase(slice);
  return {.rounds = there.rounds + back.rounds,
          .bytes_moved = there.bytes_moved + back.bytes_moved,
          .bytes_reduced = there.bytes_moved,
          .bytes_copied = 2.0 * static_cast<double>(bytes),
          .messages = there.messages + back.messages,
          .bytes_by_all = there.bytes_by_all + back.bytes_by_all};
}

}  // namespace cohort::dissemination
