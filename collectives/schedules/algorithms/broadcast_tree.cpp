// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>
#include <cohort/collectives/schedules/signals.h>

namespace cohort {
namespace broadcast_tree {
namespace {

/// Tree broadcast: the data comes down a binomial tree.
/// Cost: as many rounds as the tree is high (at most log2 p), p-1 messages in all, twice as many where all
/// hear of each other (is_joint); bytes sent once per child. Streams: main. Scratch: none. Source: Chan et
/// al. 2007, minimum spanning tree broadcast.
Task<> broadcast_tree(Exec& x, Broadcast op) {
  const Tree tree(x, op.root);
  if (is_joint(op.data.bytes, x.size())) co_await signal_upwards(x, tree);
  co_await pass_downwards(x, tree, op.data);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double n = static_cast<double>(bytes);
  return {.rounds = (is_joint(bytes, ranks) ? 2.0 : 1.0) * tree.height,
          .bytes_moved = tree.sends * n,
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = n * (ranks - 1),
          .messages_of_one = static_cast<double>(tree.children),
          .bytes_of_one = tree.children * n};
}

const Algorithm<Broadcast> kAlgorithm = {.name = "tree",
                                         .distances = Distances::tree,
                                         .cost = cost,
                                         .needs = links_to_all,
                                         .schedule = broadcast_tree};

}  // namespace
}  // namespace broadcast_tree

AnyAlgorithm describe(const struct BroadcastTree*) { return broadcast_tree::kAlgorithm; }

}  // namespace cohort
