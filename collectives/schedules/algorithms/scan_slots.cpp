// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/memory/waiting_result.h>
#include <cohort/collectives/schedules/placed.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scan_slots {
namespace {

/// All user windows are mapped: combines this rank's share of every result, the last one first, since in
/// place a result takes the place of an input that later ones have, and earlier ones have not.
void combine_shares(Exec& x, const Scan& op) {
  const Placed inputs(x, Blocks(op.send, x.size(), op.element_bytes)[x.rank()]);
  const Slice result = Blocks(op.recv, x.size(), op.element_bytes)[x.rank()];
  const bool is_own = x.rank() == 0 && !op.is_exclusive;
  if (is_own) x.perform(x.copy(op.recv, op.send));
  for (Rank rank = x.size() - 1; rank > 0; --rank) {
    const PlacedSlice output[] = {{rank, result}};
    x.perform(x.reduce(output, inputs.slices().first(op.combined_by(rank)), op.combine_of(rank)));
  }
}

/// Whether this rank's result has to wait for the phase, if it has referred: it combines what others gave,
/// and the next ones read what it gives.
[[nodiscard]] bool waits(const Exec& x, const Scan& op) {
  const bool has_others = op.combined_by(x.rank()) != 0 && x.rank() != 0;
  return has_others && x.rank() + 1 < x.size() && !x.all_referred();
}

/// Small scan between the ranks of a host: every rank brings its vector as it comes, or says where it is if
/// all map it, and combines those of the ranks up to itself, in rank order (determinism D3).
///
/// Cost: the arrival, 1 round; (p-1) * bytes read and reduced by the last rank, one vector less reduced where
/// its own is left out. Streams: main. Scratch: none. If all vectors and results are mapped, each rank
/// combines its share of all results instead: (p+1)/2 * bytes read per rank, for p * bytes by the last one.
void combine(Exec& x, const Scan& op) {
  if (x.all_referred()) return combine_shares(x, op);
  const Rank combined = op.combined_by(x.rank());
  if (combined == 0) return;
  const Slice result = waits(x, op) ? until_phase(x, op.recv) : op.recv;
  Placed inputs(x, x.announced().first(combined), 0, op.send.bytes);
  if (!op.is_exclusive) inputs.replace(x.rank(), op.send);
  const PlacedSlice& first = inputs.slices().front();
  if (combined == 1) return x.perform(x.copy_from(first.rank, result, first.slice));
  const PlacedSlice output[] = {{x.rank(), result}};
  x.perform(x.reduce(output, inputs.slices(), op.combine));
}

void finish(Exec& x, const Scan& op) {
  if (waits(x, op)) take_after_phase(x, op.recv);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = n, .bytes_reduced = n};
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return {.rounds = 1, .bytes_moved = n * (ranks - 1.0), .bytes_reduced = n * (ranks - 2.0)};
}

constexpr Algorithm<Scan> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = combine, .finish = finish, .may_refer = true}};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace
}  // namespace scan_slots

AnyAlgorithm describe(const struct ScanSlots*) { return scan_slots::kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanSlots*) { return scan_slots::kVariant; }

}  // namespace cohort
