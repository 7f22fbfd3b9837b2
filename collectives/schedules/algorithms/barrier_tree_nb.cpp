// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/along_tree.h>
#include <cohort/collectives/schedules/links/by_levels.h>
#include <cohort/collectives/schedules/signals.h>

namespace cohort {
namespace barrier_tree_nb {
namespace {

/// Barrier between leaders: Acks go up a binomial tree to the first rank of each host, these meet by Bruck's
/// rounds, and signals go down the trees. Cost, m hosts of q ranks: ceil(log2 m) rounds and twice as many as
/// a tree of q is high. Streams: main. Scratch: none. Source: as barrier_tree and barrier_nb.
Task<> barrier_tree_nb(Exec& x, Barrier) {
  Exec& inside = x.inside();
  const Tree tree(inside);
  co_await signal_upwards(inside, tree);
  if (tree.is_root()) co_await signal_around(x.across());
  co_await signal_downwards(inside, tree);
}

Cost cost(std::size_t, const Hosts& hosts) {
  const Tree::Figures& tree = Tree::figures(hosts.most_ranks());
  const Cost trees{.rounds = 2.0 * tree.height, .messages = 2.0 * (hosts.ranks() - hosts.count())};
  return trees.inside() + cost_of_signals_around(hosts.count());
}

Needs needs(std::size_t, const Hosts&) { return {.links_in_trees = true, .links_between_firsts = true}; }

const Algorithm<Barrier> kAlgorithm = {.name = "tree_nb",
                                       .levels = Levels::equal_hosts,
                                       .cost = cost,
                                       .needs = needs,
                                       .schedule = barrier_tree_nb};

}  // namespace
}  // namespace barrier_tree_nb

AnyAlgorithm describe(const struct BarrierTreeNb*) { return barrier_tree_nb::kAlgorithm; }

}  // namespace cohort
