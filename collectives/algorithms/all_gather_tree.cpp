// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/table.h>
#include <cohort/collectives/algorithms/tree.h>

namespace cohort {
namespace {

/// Tree all_gather: blocks are collected up a binomial tree to rank 0, all of them come down it.
/// Cost: 2 ceil(log2 p) rounds, 2(p-1) messages in all; at most p * block bytes up and p * block bytes per
/// child down. Streams: main. Scratch: none. Source: Chan et al. 2007, gather and broadcast.
Task<> all_gather_tree(Exec& x, AllGather op) {
  const Tree tree(x);
  const auto blocks = [&](Rank first, Rank count) {
    return Slice{op.first_block.window, op.block(first).offset, count * op.send.bytes};
  };
  co_await x.copy(op.block(x.rank()), op.send);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2) {
    const Rank child = tree.child(distance);
    co_await x.link(child).recv(blocks(child, tree.ranks_below(distance)));
  }
  const Slice all = blocks(0, x.size());
  if (!tree.is_root()) {
    Link& parent = x.link(tree.parent());
    co_await parent.send(blocks(x.rank(), tree.ranks_here()));
    co_await parent.recv(all);
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await x.link(tree.child(distance)).send(all);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double depth = Tree::depth(ranks);
  const double all = static_cast<double>(bytes) * ranks;
  return {.rounds = 2 * depth, .bytes_moved = all + all * depth, .bytes_reduced = 0};
}

Needs needs(std::size_t, Rank) { return {.links_to_all = true}; }

/// Never cut: then the blocks lie side by side.
std::size_t largest_piece(std::size_t, Rank) { return kWholeMessage; }

}  // namespace

const Algorithm<AllGather> kAllGatherTree = {AlgorithmId::tree, false,          cost, needs,
                                             largest_piece,     all_gather_tree};

}  // namespace cohort
