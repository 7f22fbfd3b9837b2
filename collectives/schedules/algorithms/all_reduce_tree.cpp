// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>

namespace cohort {
namespace all_reduce_tree {
namespace {

/// Tree all_reduce: partial sums go up a binomial tree to rank 0, the result comes down it.
///
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; twice the bytes
/// sent per rank, at most, and the bytes reduced once per child.
///
/// Streams: main. Scratch: none. Order of reduction: by rank within each subtree, subtrees from left to right
/// (determinism D1). Source: Chan et al. 2007, minimum spanning tree algorithms.
Task<> all_reduce_tree(Exec& x, AllReduce op) {
  const Tree tree(x);
  co_await x.copy(op.recv, op.send);
  co_await combine_upwards(x, tree, op.recv, x.reducer(op.combine));
  if (tree.is_root()) co_await x.finish_average(op.combine, op.recv);
  co_await pass_downwards(x, tree, op.recv);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double n = static_cast<double>(bytes);
  const double height = tree.height;
  const double messages = 2 * (ranks - 1.0);
  return {.rounds = 2 * height,
          .bytes_moved = (height + tree.sends) * n,
          .bytes_reduced = tree.children * n,
          .bytes_copied = n,
          .messages = messages,
          .bytes_by_all = n * messages,
          .messages_of_one = static_cast<double>(tree.children),
          .bytes_of_one = tree.children * n};
}

const Algorithm<AllReduce> kAlgorithm = {.name = "tree",
                                         .distances = Distances::tree,
                                         .cost = cost,
                                         .needs = links_to_all,
                                         .schedule = all_reduce_tree};

}  // namespace
}  // namespace all_reduce_tree

AnyAlgorithm describe(const struct AllReduceTree*) { return all_reduce_tree::kAlgorithm; }

}  // namespace cohort
