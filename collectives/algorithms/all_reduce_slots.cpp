// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>
#include <cohort/collectives/schedule/shares.h>
#include <cohort/collectives/schedule/waiting_result.h>

namespace cohort {
namespace {

/// Small all_reduce between the ranks of a host: every rank brings its vector when all meet, and combines all
/// of them, in rank order (determinism D3). Cost: the meeting, 1 round; (p-1) * bytes read and reduced per
/// rank. Streams: main. Scratch: none.
///
/// A vector that all ranks map need not travel: its owner announces it by reference, which spares the copy
/// into a slot whose cache lines the peers hold from the call before last. If all do, each rank combines its
/// share and stores it into all outputs. If some do, the others read those vectors in place; who has referred
/// may not overwrite its own yet, so that its result waits in its slot, which is empty, until all have passed
/// the phase.
void combine(Exec& x, const AllReduce& op) {
  if (x.all_referred()) return combine_own_share(x, op);
  const PlacedSlice output[] = {{x.rank(), until_phase(x, op.recv)}};
  x.perform(x.reduce(output, x.announced(), op.combine));
}

void finish(Exec& x, const AllReduce& op) {
  if (!x.all_referred()) take_after_phase(x, op.recv);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = n, .bytes_reduced = n};
}

const Algorithm<AllReduce> kAlgorithm = {
    .name = "slots",
    .ground = Ground::mapped,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = combine, .finish = finish, .may_refer = true}};

}  // namespace

AnyAlgorithm describe(const struct AllReduceSlots*) { return kAlgorithm; }

}  // namespace cohort
