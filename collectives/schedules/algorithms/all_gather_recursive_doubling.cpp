// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/halving.h>

namespace cohort {
namespace all_gather_recursive_doubling {
namespace {

/// Recursive doubling all_gather, also of blocks that differ: in round k, places 2^k apart exchange all
/// blocks that they have.
///
/// Cost: log2 p rounds (2 more at most when p is no power of two); (p-1) * block bytes sent per rank for a
/// power of two, up to twice as much otherwise. Streams: main and two sub streams. Scratch: none. Source:
/// Thakur, Rabenseifner, Gropp 2005, section 4.1.
template <class Op>
Task<> all_gather_recursive_doubling(Exec& x, Op op) {
  const Fold fold(x.size());
  const RankBlocks blocks(op);
  co_await x.copy(op.block(x.rank()), op.send);
  if (fold.is_second(x.rank())) {
    Link& first = x.link(x.behind(1));
    co_await send_slices(first, blocks, x.rank(), 1, Signal::DataSignal);
    co_await receive_slices(first, blocks, 0, x.size(), Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(x.rank());
  Halving halving(x, blocks);
  if (has_second) co_await receive_slices(x.link(x.ahead(1)), blocks, x.ahead(1), 1, Signal::DataSignal);
  co_await halving.all_gather();
  if (has_second) co_await send_slices(x.link(x.ahead(1)), blocks, 0, x.size(), Signal::DataSignal);
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(1, false);
  tally.double_up();
  tally.unfold(ranks);
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Tally::of<count>(ranks).cost(n).copying(n);
}

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "recursive_doubling",
                                      .distances = Distances::swaps_far,
                                      .cost = cost,
                                      .needs = links_to_all,
                                      .schedule = all_gather_recursive_doubling<Op>};

}  // namespace
}  // namespace all_gather_recursive_doubling

AnyAlgorithm describe(const struct AllGatherRecursiveDoubling*) {
  return all_gather_recursive_doubling::kAlgorithm<AllGather>;
}

AnyAlgorithm describe(const struct AllGatherVRecursiveDoubling*) {
  return all_gather_recursive_doubling::kAlgorithm<AllGatherV>;
}

}  // namespace cohort
