// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/wrong_orders.h>

#include <cohort/tests/support/schedules.h>

namespace cohort::test {
namespace {

using check::FindingKind;

/// What the root of a reduce does with contributions that lie behind one another in scratch, by rank.
Task<> collect(Exec& x, Reduce op) {
  co_await x.copy(x.scratch(x.rank() * op.send.bytes, op.send.bytes), op.send);
  for (Rank peer = 0; peer < x.size(); ++peer) {
    if (peer == x.rank()) continue;
    co_await x.link(peer).recv(x.scratch(peer * op.send.bytes, op.send.bytes));
    co_await x.link(peer).post(Signal::Ack);
  }
}

Task<> give_to_root(Exec& x, Reduce op) {
  Link& root = x.link(op.root);
  co_await root.send(op.send);
  co_await root.wait(Signal::Ack);
}

Task<> combines_backwards(Exec& x, Reduce op) {
  if (x.rank() != op.root) {
    co_await give_to_root(x, op);
    co_return;
  }
  co_await collect(x, op);
  std::vector<PlacedSlice> inputs;
  for (Rank rank = x.size(); rank > 0; --rank)
    inputs.push_back({x.rank(), x.scratch((rank - 1) * op.send.bytes, op.send.bytes)});
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  co_await x.reduce(output, inputs, op.combine);
}

Task<> combines_step_by_step(Exec& x, Reduce op) {
  if (x.rank() != op.root) {
    co_await give_to_root(x, op);
    co_return;
  }
  co_await collect(x, op);
  Combine sum = op.combine;
  sum.average_over = 0;
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  for (Rank rank = 1; rank < x.size(); ++rank) {
    const PlacedSlice inputs[] = {{x.rank(), rank == 1 ? x.scratch(0, op.send.bytes) : op.recv},
                                  {x.rank(), x.scratch(rank * op.send.bytes, op.send.bytes)}};
    co_await x.reduce(output, inputs, sum);
  }
  co_await x.finish_average(op.combine, op.recv);
}

/// Of an algorithm that says so of itself.
template <Task<> (*schedule)(Exec&, Reduce), ReductionOrder order>
check::Report that_says(const check::CheckOptions& options) {
  Algorithm<Reduce> algorithm = test::as_algorithm<Reduce>(schedule, all_links);
  algorithm.order = order;
  return check::check(algorithm, options);
}

}  // namespace

std::vector<WrongSchedule> wrong_orders() {
  return {
      {"combination backwards that is said to be by rank", FindingKind::reduction,
       "rank 0, main stream, task 8", that_says<combines_backwards, ReductionOrder::by_rank>},
      {"combination in steps that is said to be in one", FindingKind::reduction,
       "rank 0, main stream, task 11", that_says<combines_step_by_step, ReductionOrder::by_rank_at_once>},
  };
}

}  // namespace cohort::test
