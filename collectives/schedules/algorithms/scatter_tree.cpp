// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>
#include <cohort/collectives/schedules/links/subtree.h>
#include <cohort/collectives/schedules/maybe_empty.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scatter_tree {
namespace {

/// The root sends a subtree its blocks: from their places if they lie together there, else packed.
Task<> give_subtree(Exec& x, Scatter op, Rank child, Rank ranks) {
  const Subtree blocks(x, op, child, ranks);
  const bool is_direct = blocks.lies_together();
  const Slice message = is_direct ? blocks.whole() : x.scratch(0, blocks.bytes());
  for (Rank i = 0; i < blocks.ranks() && !is_direct; ++i)
    co_await x.copy(blocks.packed_block(message, i), blocks.block(i));
  co_await give_block(x.link(child), message, is_joint(op.size_bytes(), x.size()));
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
  co_await take_block(x.link(tree.parent()), packed, is_joint(op.size_bytes(), x.size()));
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    const Subtree below(x, op, tree.child(distance), tree.ranks_below(distance));
    const Slice theirs = packed.part(own.bytes_before(distance), below.bytes());
    co_await give_block(x.link(tree.child(distance)), theirs, is_joint(op.size_bytes(), x.size()));
  }
  co_await x.copy(op.recv, own.packed_block(packed, 0));
}

/// Tree scatter: blocks come down a binomial tree, those of a subtree in one message.
///
/// Cost: as many rounds as the tree is high (at most log2 p), p-1 messages in all, twice as many where all
/// hear of each other (is_joint); (p-1) * block bytes sent by the root.
///
/// Streams: main. Scratch: the blocks of the largest subtree below the root, for more than three ranks.
/// Source: Chan et al. 2007, minimum spanning tree scatter.
Task<> scatter_tree(Exec& x, Scatter op) {
  const Tree tree(x, op.root);
  if (is_joint(op.size_bytes(), x.size())) co_await signal_upwards(x, tree);
  if (tree.is_root())
    co_await give_all(x, op, tree);
  else if (tree.has_child(1))
    co_await pass_subtree_down(x, op, tree);
  else
    co_await take_block(x.link(tree.parent()), op.recv, is_joint(op.size_bytes(), x.size()));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double block = static_cast<double>(bytes);
  return {.rounds = (is_joint(bytes, ranks) ? 2.0 : 1.0) * tree.height,
          .bytes_moved = tree.largest_path_down * block,
          .bytes_copied = block,
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = tree.sizes_of_subtrees * block,
          .messages_of_one = static_cast<double>(tree.children),
          .bytes_of_one = (ranks - 1.0) * block};
}

constexpr Algorithm<Scatter> kAlgorithm = {.name = "tree",
                                           .distances = Distances::tree,
                                           .cost = cost,
                                           .needs = needs_of_subtrees,
                                           .largest_piece = largest_piece_of_subtrees,
                                           .schedule = scatter_tree};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace
}  // namespace scatter_tree

AnyAlgorithm describe(const struct ScatterTree*) { return scatter_tree::kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVTree*) { return scatter_tree::kVariant; }

}  // namespace cohort
