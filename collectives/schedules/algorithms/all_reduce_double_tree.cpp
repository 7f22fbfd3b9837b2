// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/double_tree.h>

namespace cohort {
namespace all_reduce_double_tree {
namespace {

/// Double binary tree all_reduce: partial sums of each half go up a tree of its own to rank 0, chunk by
/// chunk, and the sums come down it while the next ones go up.
///
/// Cost: 2 (1 + floor(log2(p-1))) rounds, about 2 * bytes sent and bytes reduced by each rank with children;
/// the trees fill with a chunk for each level, both ways.
///
/// Streams: main and sub streams for each neighbour in the trees. Scratch: none. Order of reduction: own
/// value first, then the left and the right subtree (determinism D1). Source: Sanders, Speck, Traeff,
/// Parallel Computing 35(12), 2009.
Task<> all_reduce_double_tree(Exec& x, AllReduce op) {
  DoubleTreeFlow trees(x, 0, HalfTree::Flow::both);
  for (const std::size_t which : {0U, 1U}) {
    trees.tree(which).use(x.reducer(op.combine), op.combine);
    trees.tree(which).use(half_of(op.recv, which));
  }
  co_await x.copy(op.recv, op.send);
  co_await trees.run();
}

Cost cost(std::size_t bytes, Rank ranks) {
  return cost_of_double_tree(bytes, ranks, HalfTree::Flow::both).copying(static_cast<double>(bytes));
}

Needs needs(std::size_t, Rank) { return needs_of_double_tree(0); }

const Algorithm<AllReduce> kAlgorithm = {.name = "double_tree",
                                         .distances = Distances::tree,
                                         .cost = cost,
                                         .needs = needs,
                                         .schedule = all_reduce_double_tree};

}  // namespace
}  // namespace all_reduce_double_tree

AnyAlgorithm describe(const struct AllReduceDoubleTree*) { return all_reduce_double_tree::kAlgorithm; }

}  // namespace cohort
