// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/tree.h>

namespace cohort {
namespace reduce_scatter_tree {
namespace {

/// What lies before that rank's block, of all blocks packed one behind the other.
template <class Op>
std::size_t bytes_before(const Op& op, Rank rank) {
  if constexpr (Op::kCounts == Counts::one) {
    return rank * op.recv.bytes;
  } else {
    std::size_t bytes = 0;
    for (Rank before = 0; before < rank; ++before) bytes += op.blocks.bytes_of(before);
    return bytes;
  }
}

/// Tree reduce_scatter, also of blocks that differ: partial sums of all blocks go up a binomial tree to rank
/// 0, each subtree's blocks come down it.
///
/// Cost: twice as many rounds as the tree is high (at most log2 p), 2(p-1) messages in all; p * block bytes
/// up, at most p/2 * block bytes per child down, p * block bytes reduced per child.
///
/// Streams: main. Scratch: p * block bytes; the caller's input stays as it is. Order of reduction: by rank
/// within each subtree, subtrees from left to right (determinism D1). Source: Chan et al. 2007, reduce and
/// scatter.
template <class Op>
Task<> reduce_scatter_tree(Exec& x, Op op) {
  const Tree tree(x);
  const Reducer reducer = x.reducer(op.combine);
  const auto blocks = [&](Rank first, Rank count) {
    const std::size_t begin = bytes_before(op, first);
    return x.scratch(begin, bytes_before(op, first + count) - begin);
  };
  for (Rank rank = 0; rank < x.size(); ++rank) co_await x.copy(blocks(rank, 1), op.block(rank));
  const Slice all = blocks(0, x.size());
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).recv_reduce(all, reducer);
  if (tree.is_root()) {
    co_await x.finish_average(op.combine, all);
  } else {
    Link& parent = x.link(tree.parent());
    co_await parent.send(all);
    co_await parent.recv(blocks(x.rank(), tree.ranks_here()));
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    const Rank child = tree.child(distance);
    co_await x.link(child).send(blocks(child, tree.ranks_below(distance)));
  }
  co_await x.copy(op.recv, blocks(x.rank(), 1));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const Tree::Figures& tree = Tree::figures(ranks);
  const double block = static_cast<double>(bytes);
  const double all = block * ranks;
  const double path = tree.height * all + tree.largest_path_down * block;
  return {.rounds = 2.0 * tree.height,
          .bytes_moved = std::max(path, tree.children * all),
          .bytes_reduced = tree.children * all,
          .bytes_copied = all + block,
          .messages = 2 * (ranks - 1.0),
          .bytes_by_all = all * (ranks - 1) + tree.sizes_of_subtrees * block};
}

Needs needs(std::size_t bytes, Rank ranks) { return {.links_to_all = true, .scratch_bytes = bytes * ranks}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) { return buffer_bytes / ranks; }

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "tree",
                                      .distances = Distances::tree,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_scatter_tree<Op>};

}  // namespace
}  // namespace reduce_scatter_tree

AnyAlgorithm describe(const struct ReduceScatterTree*) {
  return reduce_scatter_tree::kAlgorithm<ReduceScatter>;
}

AnyAlgorithm describe(const struct ReduceScatterVTree*) {
  return reduce_scatter_tree::kAlgorithm<ReduceScatterV>;
}

}  // namespace cohort
