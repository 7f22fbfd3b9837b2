// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/table.h>
#include <cohort/collectives/schedule/tree.h>

namespace cohort {
namespace {

/// Tree broadcast: Acks go up a binomial tree to the root, the data comes down it.
/// Cost: 2 ceil(log2 p) rounds, 2(p-1) messages in all; bytes sent once per child. Streams: main. Scratch:
/// none. Source: Chan et al. 2007, minimum spanning tree broadcast.
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
  const double depth = Tree::depth(ranks);
  const double n = static_cast<double>(bytes);
  return {.rounds = 2 * depth,
          .bytes_moved = n * depth,
          .bytes_reduced = 0,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = n * (ranks - 1)};
}

Needs needs(std::size_t, Rank) { return {.links_to_all = true}; }

std::size_t largest_piece(std::size_t, Rank) { return kWholeMessage; }

}  // namespace

const Algorithm<Broadcast> kBroadcastTree = {AlgorithmId::tree, false,         cost, needs,
                                             largest_piece,     broadcast_tree};

}  // namespace cohort
