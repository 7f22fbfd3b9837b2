// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/tree.h>

namespace cohort {
namespace {

/// Tree barrier: Acks go up a binomial tree to rank 0, DataSignals come down it.
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) signals in all.
Task<> barrier_tree(Exec& x, Barrier) {
  const Tree tree(x);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).wait(Signal::Ack);
  if (!tree.is_root()) {
    Link& parent = x.link(tree.parent());
    co_await parent.post(Signal::Ack);
    co_await parent.wait(Signal::DataSignal);
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await x.link(tree.child(distance)).post(Signal::DataSignal);
}

Cost cost(std::size_t, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  return {.rounds = 2.0 * tree.height, .messages = 2 * (ranks - 1.0)};
}

const Algorithm<Barrier> kAlgorithm = {
    .name = "tree", .cost = cost, .needs = links_to_all, .schedule = barrier_tree};

}  // namespace

AnyAlgorithm describe(const struct BarrierTree*) { return kAlgorithm; }

}  // namespace cohort
