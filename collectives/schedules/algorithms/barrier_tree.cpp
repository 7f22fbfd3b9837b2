// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>

namespace cohort {
namespace barrier_tree {
namespace {

/// Tree barrier: Acks go up a binomial tree to rank 0, DataSignals come down it.
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) signals in all.
Task<> barrier_tree(Exec& x, Barrier) {
  const Tree tree(x);
  co_await signal_upwards(x, tree);
  co_await signal_downwards(x, tree);
}

Cost cost(std::size_t, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  return {.rounds = 2.0 * tree.height,
          .messages = 2 * (ranks - 1.0),
          .messages_of_one = static_cast<double>(tree.children)};
}

const Algorithm<Barrier> kAlgorithm = {.name = "tree",
                                       .distances = Distances::tree,
                                       .cost = cost,
                                       .needs = links_to_all,
                                       .schedule = barrier_tree};

}  // namespace
}  // namespace barrier_tree

AnyAlgorithm describe(const struct BarrierTree*) { return barrier_tree::kAlgorithm; }

}  // namespace cohort
