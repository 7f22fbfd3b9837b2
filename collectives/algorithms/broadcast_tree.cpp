// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/tree.h>

namespace cohort {
namespace {

/// Tree broadcast: Acks go up a binomial tree to the root, the data comes down it.
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; bytes sent once
/// per child. Streams: main. Scratch: none. Source: Chan et al. 2007, minimum spanning tree broadcast.
///
/// The Acks tell everybody who gets the data that all run the same collective.
Task<> broadcast_tree(Exec& x, Broadcast op) {
  const Tree tree(x, op.root);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).wait(Signal::Ack);
  if (!tree.is_root()) {
    Link& parent = x.link(tree.parent());
    co_await parent.post(Signal::Ack);
    co_await parent.recv(op.data);
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await x.link(tree.child(distance)).send(op.data);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double n = static_cast<double>(bytes);
  return {.rounds = 2.0 * tree.height,
          .bytes_moved = tree.sends * n,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = n * (ranks - 1)};
}

const Algorithm<Broadcast> kAlgorithm = {
    .name = "tree", .cost = cost, .needs = links_to_all, .schedule = broadcast_tree};

}  // namespace

AnyAlgorithm describe(const struct BroadcastTree*) { return kAlgorithm; }

}  // namespace cohort
