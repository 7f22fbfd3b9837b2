// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/halving.h>

namespace cohort {
namespace reduce_scatter_rhd {
namespace {

/// Room in scratch for a sum of each rank's block, as large as it is, side by side. The list is leased from
/// the Exec. Lifetime: within one schedule.
class Sums : Immovable {
 public:
  template <class Op>
  Sums(Exec& x, const Op& op) : x_(x), sums_(x.lease_places()) {
    std::size_t end = 0;
    for (Rank rank = 0; rank < x.size(); ++rank) {
      sums_.push_back({x.here(), x.scratch(end, op.block(rank).bytes)});
      end += sums_.back().slice.bytes;
    }
  }
  ~Sums() { x_.give_back(std::move(sums_)); }

  [[nodiscard]] const Slice& operator[](Rank of) const noexcept { return sums_[of].slice; }
  // As Halving wants them:
  [[nodiscard]] Rank messages(Rank) const noexcept { return 1; }
  [[nodiscard]] Slice message(Rank first, Rank count, Rank) const noexcept {
    const Slice& begin = sums_[first].slice;
    const Slice& end = sums_[first + count - 1].slice;
    return {begin.window, begin.offset, end.offset + end.bytes - begin.offset};
  }

 private:
  Exec& x_;
  std::vector<PlacedSlice> sums_;
};

/// Recursive halving reduce_scatter, also of blocks that differ: partial sums of half of the blocks that are
/// left go to the place that differs in one bit.
///
/// Cost: log2 p rounds (2 more at most when p is no power of two); (p-1) * block bytes sent and reduced per
/// rank for a power of two, up to twice as much otherwise.
///
/// Streams: main and two sub streams. Scratch: p * block bytes; the caller's input stays as it is. Order of
/// reduction: own partial sum first, from the farthest place to the nearest (determinism D1). Source: Thakur,
/// Rabenseifner, Gropp 2005, section 4.3.
template <class Op>
Task<> reduce_scatter_rhd(Exec& x, Op op) {
  const Fold fold(x.size());
  const Sums sums(x, op);
  for (Rank rank = 0; rank < x.size(); ++rank) co_await x.copy(sums[rank], op.block(rank));
  if (fold.is_second(x.rank())) {
    Link& first = x.link(x.behind(1));
    const VectorSlices own(op.recv, 1, op.element_bytes);
    co_await send_slices(first, sums, 0, x.size(), Signal::DataSignal);
    co_await receive_slices(first, own, 0, 1, Signal::DataSignal);
    co_return;
  }
  const bool has_second = fold.has_second(x.rank());
  const Reducer reducer = x.reducer(op.combine);
  Halving halving(x, sums);
  if (has_second)
    co_await receive_reduce_slices(x.link(x.ahead(1)), sums, 0, x.size(), reducer, Signal::DataSignal);
  co_await halving.reduce_scatter(reducer);
  co_await x.finish_average(op.combine, halving.own());
  if (has_second) co_await send_slices(x.link(x.ahead(1)), sums, x.ahead(1), 1, Signal::DataSignal);
  co_await x.copy(op.recv, sums[x.rank()]);
}

Tally count(Rank ranks) {
  FoldTally tally(ranks);
  tally.fold(ranks, true);
  tally.halve();
  tally.unfold(1);
  return tally.counted();
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return Tally::of<count>(ranks).cost(n).copying(n * (ranks + 1.0));
}

Needs needs(std::size_t bytes, Rank ranks) { return {.links_to_all = true, .scratch_bytes = bytes * ranks}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) { return buffer_bytes / ranks; }

template <class Op>
constexpr Algorithm<Op> kAlgorithm = {.name = "rhd",
                                      .distances = Distances::swaps_far,
                                      .cost = cost,
                                      .needs = needs,
                                      .largest_piece = largest_piece,
                                      .schedule = reduce_scatter_rhd<Op>};

}  // namespace
}  // namespace reduce_scatter_rhd

AnyAlgorithm describe(const struct ReduceScatterRhd*) {
  return reduce_scatter_rhd::kAlgorithm<ReduceScatter>;
}

AnyAlgorithm describe(const struct ReduceScatterVRhd*) {
  return reduce_scatter_rhd::kAlgorithm<ReduceScatterV>;
}

}  // namespace cohort
