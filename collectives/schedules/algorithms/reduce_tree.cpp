// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>
#include <cohort/collectives/schedules/links/tree.h>
#include <cohort/collectives/schedules/signals.h>

namespace cohort {
namespace reduce_tree {
namespace {

/// Tree reduce: partial sums go up a binomial tree to the root.
///
/// Cost: as many rounds as the tree is high (at most log2 p), p-1 messages in all, twice as many where all
/// hear of each other (is_joint); bytes received and reduced once per child.
///
/// Streams: main. Scratch: bytes for more than two ranks, as only the root has memory for a sum. Order of
/// reduction: by place within each subtree, subtrees from left to right (determinism D1). Source: Chan et al.
/// 2007, minimum spanning tree reduce.
Task<> reduce_tree(Exec& x, Reduce op) {
  const Tree tree(x, op.root);
  const Reducer reducer = x.reducer(op.combine);
  const bool is_leaf = !tree.has_child(1);
  const Slice inner = tree.is_root() ? op.recv : x.scratch(0, op.send.bytes);
  const Slice sum = is_leaf ? op.send : inner;
  if (!is_leaf) co_await x.copy(sum, op.send);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).recv_reduce(sum, reducer);
  if (tree.is_root())
    co_await x.finish_average(op.combine, sum);
  else
    co_await x.link(tree.parent()).send(sum);
  if (is_joint(op.send.bytes, x.size())) co_await signal_downwards(x, tree);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double n = static_cast<double>(bytes);
  return {.rounds = (is_joint(bytes, ranks) ? 2.0 : 1.0) * tree.height,
          .bytes_moved = tree.children * n,
          .bytes_reduced = tree.children * n,
          .bytes_copied = n,
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = n * (ranks - 1)};
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = ranks > 2 ? bytes : 0};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) {
  return ranks > 2 ? buffer_bytes : kWholeMessage;
}

const Algorithm<Reduce> kAlgorithm = {.name = "tree",
                                      .distances = Distances::tree,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_tree};

}  // namespace
}  // namespace reduce_tree

AnyAlgorithm describe(const struct ReduceTree*) { return reduce_tree::kAlgorithm; }

}  // namespace cohort
