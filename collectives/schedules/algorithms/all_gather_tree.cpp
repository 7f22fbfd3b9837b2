// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/rank_slices.h>
#include <cohort/collectives/schedules/links/tree.h>

namespace cohort {
namespace all_gather_tree {
namespace {

/// Tree all_gather, also of blocks that differ: they are collected up a binomial tree to rank 0, all of them
/// come down it.
///
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; at most p * block
/// bytes up and p * block bytes per child down. Streams: main. Scratch: none. Source: Chan et al. 2007,
/// gather and broadcast.
template <class Op>
Task<> all_gather_tree(Exec& x, Op op) {
  const Tree tree(x);
  const RankBlocks blocks(op);
  co_await x.copy(op.block(x.rank()), op.send);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2) {
    const Rank child = tree.child(distance);
    co_await receive_slices(x.link(child), blocks, child, tree.ranks_below(distance), Signal::DataSignal);
  }
  if (!tree.is_root()) {
    Link& parent = x.link(tree.parent());
    co_await send_slices(parent, blocks, x.rank(), tree.ranks_here(), Signal::DataSignal);
    co_await receive_slices(parent, blocks, 0, x.size(), Signal::DataSignal);
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance))
      co_await send_slices(x.link(tree.child(distance)), blocks, 0, x.size(), Signal::DataSignal);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double block = static_cast<double>(bytes);
  const double down = static_cast<double>(tree.sends) * ranks;
  return {.rounds = 2.0 * tree.height,
          .bytes_moved = (tree.largest_path_up + down) * block,
          .bytes_copied = block,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = (tree.sizes_of_subtrees + ranks * (ranks - 1.0)) * block,
          .messages_of_one = static_cast<double>(tree.children),
          .bytes_of_one = static_cast<double>(tree.children) * ranks * block};
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "tree",
                                      .distances = Distances::tree,
                                      .cost = cost,
                                      .needs = links_to_all,
                                      .schedule = all_gather_tree<Op>};

}  // namespace
}  // namespace all_gather_tree

AnyAlgorithm describe(const struct AllGatherTree*) { return all_gather_tree::kAlgorithm<AllGather>; }

AnyAlgorithm describe(const struct AllGatherVTree*) { return all_gather_tree::kAlgorithm<AllGatherV>; }

}  // namespace cohort
