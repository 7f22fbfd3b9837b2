// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/double_tree.h>

namespace cohort {
namespace broadcast_double_tree {
namespace {

/// Double binary tree broadcast: each half of the data goes down a tree of its own, chunk by chunk, after
/// Acks have gone up the first one.
///
/// Cost: 2 (1 + floor(log2(p-1))) rounds, about bytes sent by each rank with children; the trees fill with a
/// chunk for each level. Streams: main and a sub stream for each neighbour in the trees. Scratch: none.
/// Source: Sanders, Speck, Traeff, Parallel Computing 35(12), 2009.
Task<> broadcast_double_tree(Exec& x, Broadcast op) {
  DoubleTreeFlow trees(x, op.root, HalfTree::Flow::down);
  for (const std::size_t which : {0U, 1U}) trees.tree(which).use(half_of(op.data, which));
  co_await trees.tree(0).tell_root();
  co_await trees.run();
}

Cost cost(std::size_t bytes, Rank ranks) { return cost_of_double_tree(bytes, ranks, HalfTree::Flow::down); }

Needs needs(std::size_t, Rank) { return needs_of_double_tree(0); }

const Algorithm<Broadcast> kAlgorithm = {.name = "double_tree",
                                         .distances = Distances::tree,
                                         .cost = cost,
                                         .needs = needs,
                                         .schedule = broadcast_double_tree};

}  // namespace
}  // namespace broadcast_double_tree

AnyAlgorithm describe(const struct BroadcastDoubleTree*) { return broadcast_double_tree::kAlgorithm; }

}  // namespace cohort
