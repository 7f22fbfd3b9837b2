// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/maybe_empty.h>
#include <cohort/collectives/schedule/subtree.h>
#include <cohort/collectives/schedule/variant.h>

namespace cohort {
namespace {

/// The root sends a subtree its blocks: from their places if they lie together there, else packed.
Task<> give_subtree(Exec& x, Scatter op, Rank child, Rank ranks) {
  const Subtree blocks(x, op, child, ranks);
  const bool is_direct = blocks.lies_together();
  const Slice message = is_direct ? blocks.whole() : x.scratch(0, blocks.bytes());
  for (Rank i = 0; i < blocks.ranks() && !is_direct; ++i)
    co_await x.copy(blocks.packed_block(message, i), blocks.block(i));
  co_await send_or_post(x.link(child), message);
}

Task<> give_all(Exec& x, Scatter op, Tree tree) {
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance))
      co_await give_subtree(x, op, tree.child(distance), tree.ranks_below(distance));
  co_await x.copy(op.recv, op.block(op.root));
}

/// What a rank with others below it gets, and passes on.
Task<> pass_subtree_down(Exec& x, Scatter op, Tree tree) {
  const Subtree own(x, op, x.rank(), tree.ranks_here());
  const Slice packed = x.scratch(0, own.bytes());
  co_await receive_or_wait(x.link(tree.parent()), packed);
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    const Subtree below(x, op, tree.child(distance), tree.ranks_below(distance));
    const Slice theirs = packed.part(own.bytes_before(distance), below.bytes());
    co_await send_or_post(x.link(tree.child(distance)), theirs);
  }
  co_await x.copy(op.recv, own.packed_block(packed, 0));
}

Task<> take_and_give(Exec& x, Scatter op, Tree tree) {
  if (tree.is_root()) return give_all(x, op, tree);
  if (tree.has_child(1)) return pass_subtree_down(x, op, tree);
  return receive_or_wait(x.link(tree.parent()), op.recv);
}

/// Tree scatter: Acks go up a binomial tree to the root, blocks come down it, those of a subtree in one
/// message. Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; (p-1) *
/// block bytes sent by the root. Streams: main. Scratch: the blocks of the largest subtree below the root,
/// for more than three ranks. Source: Chan et al. 2007, minimum spanning tree scatter.
///
/// The Acks tell everybody who gets blocks that all run the same collective.
Task<> scatter_tree(Exec& x, Scatter op) {
  const Tree tree(x, op.root);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).wait(Signal::Ack);
  if (!tree.is_root()) co_await x.link(tree.parent()).post(Signal::Ack);
  co_await take_and_give(x, op, tree);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double block = static_cast<double>(bytes);
  return {.rounds = 2.0 * tree.height,
          .bytes_moved = tree.largest_path_down * block,
          .bytes_copied = block,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = tree.sizes_of_subtrees * block};
}

constexpr Algorithm<Scatter> kAlgorithm = {.name = "tree",
                                           .distances = Distances::tree,
                                           .cost = cost,
                                           .needs = needs_of_subtrees,
                                           .largest_piece = largest_piece_of_subtrees,
                                           .schedule = scatter_tree};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace

AnyAlgorithm describe(const struct ScatterTree*) { return kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVTree*) { return kVariant; }

}  // namespace cohort
