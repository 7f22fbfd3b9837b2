// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/variant.h>

namespace cohort {
namespace {

/// Small scan between the ranks of a host: every rank brings its vector when all meet, and combines those of
/// the ranks up to itself, in rank order (determinism D3). Cost: the meeting, 1 round; (p-1) * bytes read and
/// reduced by the last rank, one vector less reduced where its own is left out. Streams: main. Scratch: none.
void combine(Exec& x, const Scan& op) {
  const auto inputs = x.announced().first(op.combined_by(x.rank()));
  const bool is_own = !op.is_exclusive && x.rank() == 0;
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  if (is_own) return x.perform(x.copy(op.recv, op.send));
  if (inputs.size() == 1) x.perform(x.copy_from(0, op.recv, inputs[0].slice));
  if (inputs.size() > 1) x.perform(x.reduce(output, inputs, op.combine));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = n, .bytes_reduced = n};
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return {.rounds = 1, .bytes_moved = n * (ranks - 1.0), .bytes_reduced = n * (ranks - 2.0)};
}

constexpr Algorithm<Scan> kAlgorithm = {.name = "slots",
                                        .ground = Ground::mapped,
                                        .order = ReductionOrder::by_rank_at_once,
                                        .cost = cost,
                                        .local = {.announces = Announces::data, .combine = combine}};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace

AnyAlgorithm describe(const struct ScanSlots*) { return kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanSlots*) { return kVariant; }

}  // namespace cohort
