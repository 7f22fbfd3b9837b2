// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>
#include <cohort/collectives/schedules/links/subtree.h>
#include <cohort/collectives/schedules/maybe_empty.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace gather_tree {
namespace {

/// The root takes a subtree's blocks: at their places at once if they lie together there, else through
/// scratch.
Task<> take_subtree(Exec& x, Gather op, Rank child, Rank ranks) {
  const Subtree blocks(x, op, child, ranks);
  const bool is_direct = blocks.lies_together();
  const Slice arrival = is_direct ? blocks.whole() : x.scratch(0, blocks.bytes());
  co_await take_block(x.link(child), arrival, is_joint(op.size_bytes(), x.size()));
  for (Rank i = 0; i < blocks.ranks() && !is_direct; ++i)
    co_await x.copy(blocks.block(i), blocks.packed_block(arrival, i));
}

/// What a rank with others below it passes on: its own block, and behind it what they send.
Task<> pass_subtree_up(Exec& x, Gather op, Tree tree) {
  const Subtree own(x, op, x.rank(), tree.ranks_here());
  const Slice packed = x.scratch(0, own.bytes());
  co_await x.copy(own.packed_block(packed, 0), op.send);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2) {
    const Subtree below(x, op, tree.child(distance), tree.ranks_below(distance));
    const Slice theirs = packed.part(own.bytes_before(distance), below.bytes());
    co_await take_block(x.link(tree.child(distance)), theirs, is_joint(op.size_bytes(), x.size()));
  }
  co_await give_block(x.link(tree.parent()), packed, is_joint(op.size_bytes(), x.size()));
}

Task<> take_all(Exec& x, Gather op, Tree tree) {
  co_await x.copy(op.block(op.root), op.send);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await take_subtree(x, op, tree.child(distance), tree.ranks_below(distance));
}

/// Tree gather: blocks go up a binomial tree to the root, those of a subtree in one message.
///
/// Cost: as many rounds as the tree is high (at most log2 p), p-1 messages in all, twice as many where all
/// hear of each other (is_joint); (p-1) * block bytes received by the root.
///
/// Streams: main. Scratch: the blocks of the largest subtree below the root, for more than three ranks.
/// Source: Chan et al. 2007, minimum spanning tree gather.
Task<> gather_tree(Exec& x, Gather op) {
  const Tree tree(x, op.root);
  if (tree.is_root())
    co_await take_all(x, op, tree);
  else if (tree.has_child(1))
    co_await pass_subtree_up(x, op, tree);
  else
    co_await give_block(x.link(tree.parent()), op.send, is_joint(op.size_bytes(), x.size()));
  if (is_joint(op.size_bytes(), x.size())) co_await signal_downwards(x, tree);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double block = static_cast<double>(bytes);
  return {.rounds = (is_joint(bytes, ranks) ? 2.0 : 1.0) * tree.height,
          .bytes_moved = (ranks - 1.0) * block,
          .bytes_copied = block,
          .messages = messages_with_root(bytes, ranks),
          .bytes_by_all = tree.sizes_of_subtrees * block};
}

constexpr Algorithm<Gather> kAlgorithm = {.name = "tree",
                                          .distances = Distances::tree,
                                          .cost = cost,
                                          .needs = needs_of_subtrees,
                                          .largest_piece = largest_piece_of_subtrees,
                                          .schedule = gather_tree};

constexpr Algorithm<GatherV> kVariant = variant_of<GatherV, kAlgorithm>();

}  // namespace
}  // namespace gather_tree

AnyAlgorithm describe(const struct GatherTree*) { return gather_tree::kAlgorithm; }

AnyAlgorithm describe(const struct GatherVTree*) { return gather_tree::kVariant; }

}  // namespace cohort
