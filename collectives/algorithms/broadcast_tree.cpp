// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/along_tree.h>

namespace cohort {
namespace {

/// Tree broadcast: Acks go up a binomial tree to the root, the data comes down it.
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; bytes sent once
/// per child. Streams: main. Scratch: none. Source: Chan et al. 2007, minimum spanning tree broadcast.
///
/// The Acks tell everybody who gets the data that all run the same collective.
Task<> broadcast_tree(Exec& x, Broadcast op) {
  const Tree tree(x, op.root);
  co_await signal_upwards(x, tree);
  co_await pass_downwards(x, tree, op.data);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double n = static_cast<double>(bytes);
  return {.rounds = 2.0 * tree.height,
          .bytes_moved = tree.sends * n,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = n * (ranks - 1)};
}

const Algorithm<Broadcast> kAlgorithm = {.name = "tree",
                                         .distances = Distances::tree,
                                         .cost = cost,
                                         .needs = links_to_all,
                                         .schedule = broadcast_tree};

}  // namespace

AnyAlgorithm describe(const struct BroadcastTree*) { return kAlgorithm; }

}  // namespace cohort
