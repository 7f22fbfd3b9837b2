// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/double_tree.h>

namespace cohort {
namespace reduce_double_tree {
namespace {

/// Double binary tree reduce: partial sums of each half go up a tree of its own, chunk by chunk; then
/// DataSignals go down the first one.
///
/// Cost: 2 (1 + floor(log2(p-1))) rounds, about bytes received and reduced by each rank with children; the
/// trees fill with a chunk for each level.
///
/// Streams: main and a sub stream for each neighbour in the trees. Scratch: half of the bytes, as only the
/// root has memory for a sum. Order of reduction: own value first, then the left and the right subtree
/// (determinism D1). Source: Sanders, Speck, Traeff, Parallel Computing 35(12), 2009.
Task<> reduce_double_tree(Exec& x, Reduce op) {
  DoubleTreeFlow trees(x, op.root, HalfTree::Flow::up);
  for (const std::size_t which : {0U, 1U}) {
    HalfTree& tree = trees.tree(which);
    tree.use(x.reducer(op.combine), op.combine);
    const Slice given = half_of(op.send, which);
    const Slice sum = tree.is_root() ? half_of(op.recv, which) : x.scratch(0, given.bytes);
    tree.use(tree.is_leaf() ? given : sum);
    if (!tree.is_leaf()) co_await x.copy(sum, given);
  }
  co_await trees.run();
  co_await trees.tree(0).tell_all();
}

Cost cost(std::size_t bytes, Rank ranks) {
  return cost_of_double_tree(bytes, ranks, HalfTree::Flow::up).copying(static_cast<double>(bytes));
}

Needs needs(std::size_t bytes, Rank) { return needs_of_double_tree(bytes); }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

const Algorithm<Reduce> kAlgorithm = {.name = "double_tree",
                                      .distances = Distances::tree,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_double_tree};

}  // namespace
}  // namespace reduce_double_tree

AnyAlgorithm describe(const struct ReduceDoubleTree*) { return reduce_double_tree::kAlgorithm; }

}  // namespace cohort
