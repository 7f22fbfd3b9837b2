// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/tree.h>

namespace cohort {
namespace {

/// Blocks of several ranks, which lie side by side unless the message was cut: then one message for each.
struct RankBlocks {
  RankBlocks(const AllGather& of, Rank from, Rank how_many) noexcept : op(of), first(from), count(how_many) {}

  [[nodiscard]] Rank messages() const noexcept { return op.stride == op.send.bytes ? 1 : count; }
  [[nodiscard]] Slice message(Rank index) const noexcept {
    const Slice one = op.block(first + index);
    return {one.window, one.offset, messages() == 1 ? count * one.bytes : one.bytes};
  }

  AllGather op;
  Rank first;
  Rank count;
};

Task<> send_blocks(Link& link, RankBlocks blocks) {
  for (Rank i = 0; i < blocks.messages(); ++i) co_await link.send(blocks.message(i));
}

Task<> receive_blocks(Link& link, RankBlocks blocks) {
  for (Rank i = 0; i < blocks.messages(); ++i) co_await link.recv(blocks.message(i));
}

/// Tree all_gather: blocks are collected up a binomial tree to rank 0, all of them come down it.
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; at most p * block
/// bytes up and p * block bytes per child down. Streams: main. Scratch: none. Source: Chan et al. 2007,
/// gather and broadcast.
Task<> all_gather_tree(Exec& x, AllGather op) {
  const Tree tree(x);
  co_await x.copy(op.block(x.rank()), op.send);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2) {
    const Rank child = tree.child(distance);
    const RankBlocks theirs(op, child, tree.ranks_below(distance));
    co_await receive_blocks(x.link(child), theirs);
  }
  const RankBlocks own(op, x.rank(), tree.ranks_here());
  const RankBlocks all(op, 0, x.size());
  if (!tree.is_root()) {
    Link& parent = x.link(tree.parent());
    co_await send_blocks(parent, own);
    co_await receive_blocks(parent, all);
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await send_blocks(x.link(tree.child(distance)), all);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double block = static_cast<double>(bytes);
  const double down = static_cast<double>(tree.sends) * ranks;
  return {.rounds = 2.0 * tree.height,
          .bytes_moved = (tree.largest_path_up + down) * block,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = (tree.sizes_of_subtrees + ranks * (ranks - 1.0)) * block};
}

const Algorithm<AllGather> kAlgorithm = {
    .name = "tree", .cost = cost, .needs = links_to_all, .schedule = all_gather_tree};

}  // namespace

AnyAlgorithm describe(const struct AllGatherTree*) { return kAlgorithm; }

}  // namespace cohort
