// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/table.h>
#include <cohort/collectives/schedule/tree.h>

namespace cohort {
namespace {

/// One-shot barrier: tell everybody, hear from everybody. Cost: 1 round; p-1 signals per rank.
Task<> barrier_one_shot(Exec& x, Barrier) {
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

/// Ring barrier: a token goes around to learn that all are there, and once more to tell them. Cost: 2p
/// rounds.
Task<> barrier_ring(Exec& x, Barrier) {
  Link& next = x.link(x.ahead(1));
  Link& previous = x.link(x.behind(1));
  for (const Signal token : {Signal::Ack, Signal::DataSignal}) {
    if (x.rank() != 0) co_await previous.wait(token);
    co_await next.post(token);
    if (x.rank() == 0) co_await previous.wait(token);
  }
}

/// Tree barrier: Acks go up a binomial tree to rank 0, DataSignals come down it.
/// Cost: 2 ceil(log2 p) rounds, 2(p-1) signals in all.
Task<> barrier_tree(Exec& x, Barrier) {
  const Tree tree(x);
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).wait(Signal::Ack);
  if (!tree.is_root()) {
    Link& parent = x.link(tree.parent());
    co_await parent.post(Signal::Ack);
    co_await parent.wait(Signal::DataSignal);
  }
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await x.link(tree.child(distance)).post(Signal::DataSignal);
}

/// Direct barrier on mapped memory: one counter per rank. Cost: 1 phase.
Task<> barrier_direct(Exec& x, Barrier) { return x.phase(); }

Cost signals(double rounds, double messages) {
  return {.rounds = rounds, .bytes_moved = 0, .bytes_reduced = 0, .messages = messages, .bytes_by_all = 0};
}
Cost one_shot_cost(std::size_t, Rank ranks) { return signals(1, ranks * (ranks - 1.0)); }
Cost ring_cost(std::size_t, Rank ranks) { return signals(2.0 * ranks, 2.0 * ranks); }
Cost tree_cost(std::size_t, Rank ranks) { return signals(2 * Tree::depth(ranks), 2 * (ranks - 1.0)); }
Cost direct_cost(std::size_t, Rank) { return signals(1, 0); }

Needs all_links(std::size_t, Rank) { return {.links_to_all = true}; }
Needs ring_links(std::size_t, Rank) { return {.links_to_neighbours = true}; }
Needs no_links(std::size_t, Rank) { return {}; }

std::size_t largest_piece(std::size_t, Rank) { return kWholeMessage; }

}  // namespace

const Algorithm<Barrier> kBarrierOneShot = {AlgorithmId::one_shot, false,           one_shot_cost, all_links,
                                            largest_piece,         barrier_one_shot};
const Algorithm<Barrier> kBarrierRing = {AlgorithmId::ring, false,         ring_cost,
                                         ring_links,        largest_piece, barrier_ring};
const Algorithm<Barrier> kBarrierTree = {AlgorithmId::tree, false,         tree_cost,
                                         all_links,         largest_piece, barrier_tree};
const Algorithm<Barrier> kBarrierDirect = {AlgorithmId::direct, true,          direct_cost, no_links,
                                           largest_piece,       barrier_direct};

}  // namespace cohort
