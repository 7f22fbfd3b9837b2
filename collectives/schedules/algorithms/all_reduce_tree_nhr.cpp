// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_reduce_tree_nhr {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// All_reduce between leaders: the sum of each host goes up a binomial tree to its first rank, these combine
/// theirs by nhr, and the result goes down the trees. Hosts of any sizes.
///
/// Cost, m hosts, the largest of q ranks: 2 ceil(log2 m) rounds and twice as many as a tree of q is high; up
/// to log2 q * bytes sent inside each way, and 2(m-1)/m * bytes across by the leaders.
///
/// Streams: main, and two sub streams in a round of nhr. Scratch: bytes. Order of reduction: by place within
/// each subtree, then as nhr (determinism D1). Source: HCCL's algorithm guide: reduce, all_reduce between
/// leaders, broadcast; Chan et al. 2007 for the trees.
Task<> all_reduce_tree_nhr(Exec& x, AllReduce op) {
  Exec& inside = x.inside();
  const Tree tree(inside);
  const AllReduce sums{op.recv, op.recv, op.combine, op.element_bytes};
  co_await x.copy(op.recv, op.send);
  co_await combine_upwards(inside, tree, op.recv, x.reducer(op.combine));
  if (tree.is_root()) {
    Exec& leaders = x.across();
    leaders.use_scratch_from(0);
    if (leaders.size() > 1)
      co_await dissemination::all_reduce(leaders, sums, Order::farthest_first, Towards::next,
                                         Order::farthest_first);
    else
      co_await x.finish_average(op.combine, op.recv);
  }
  co_await pass_downwards(inside, tree, op.recv);
}

/// What nhr passes on it passes back: the longest way leads from the leader of the largest host around all
/// others to itself.
Cost cost(std::size_t bytes, const Hosts& hosts) {
  const Tree::Figures& tree = Tree::figures(hosts.most_ranks());
  const double n = static_cast<double>(bytes);
  const double inside = 2.0 * (hosts.ranks() - hosts.count());
  const Cost trees{.rounds = 2.0 * tree.height,
                   .bytes_moved = (tree.height + tree.sends) * n,
                   .bytes_reduced = tree.children * n,
                   .bytes_copied = n,
                   .messages = inside,
                   .bytes_by_all = inside * n};
  if (hosts.count() == 1) return trees.inside();
  const Cost leaders =
      dissemination::cost_of_all_reduce(Order::farthest_first, Order::farthest_first, bytes, hosts.count());
  return trees.inside() + leaders;
}

Needs needs(std::size_t bytes, const Hosts& hosts) {
  return {.links_in_trees = true,
          .links_between_firsts = true,
          .scratch_bytes = levels::needs_of_vector(bytes, hosts).scratch_bytes};
}

const Algorithm<AllReduce> kAlgorithm = {.name = "tree_nhr",
                                         .levels = Levels::any_hosts,
                                         .cost = cost,
                                         .needs = needs,
                                         .largest_piece = levels::largest_vector,
                                         .schedule = all_reduce_tree_nhr};

}  // namespace
}  // namespace all_reduce_tree_nhr

AnyAlgorithm describe(const struct AllReduceTreeNhr*) { return all_reduce_tree_nhr::kAlgorithm; }

}  // namespace cohort
