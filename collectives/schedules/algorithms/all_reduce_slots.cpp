// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

#include <cohort/collectives/schedules/memory/shares.h>
#include <cohort/collectives/schedules/memory/waiting_result.h>
#include <cohort/engine/tuning.h>

namespace cohort {
namespace all_reduce_slots {
namespace {

bool is_worth_meeting(std::size_t bytes, Rank of_ranks) {
  const auto n = static_cast<double>(bytes);
  const double ranks = of_ranks;
  return n * (ranks - 1) * (ranks - 2) * ranks >= tuning::slots::kWorthMeetingTwice &&
         n >= ranks * tuning::slots::kLeastShare;
}

/// Where ranks share cores, to meet costs each a switch.
bool meets_again(const Exec& x, std::size_t bytes) {
  return x.plan().has_core_each() && bytes <= x.ccl_bytes() && is_worth_meeting(bytes, x.size());
}

bool is_shared_out(const Exec& x, const AllReduce& op) {
  return x.none_referred() && meets_again(x, op.send.bytes);
}

/// Of so many bytes of ccl_out, where it leaves them for the others, and of its result.
void combine_share(Exec& x, const AllReduce& op) {
  const Rank me = x.rank();
  const auto share_of = [&](const Slice& whole) { return Blocks(whole, x.size(), op.element_bytes)[me]; };
  const Slice own = share_of({WindowId::slot, 0, op.send.bytes});
  const Placed inputs(x, x.announced(), own.offset, own.bytes);
  const PlacedSlice outputs[] = {{me, share_of(op.recv)}, {me, share_of(x.ccl_out(0, op.recv.bytes))}};
  x.perform(x.reduce(outputs, inputs.slices(), op.combine));
}

void take_shares(Exec& x, const AllReduce& op) {
  const Blocks from(x.ccl_out(0, op.recv.bytes), x.size(), op.element_bytes);
  const Blocks to(op.recv, x.size(), op.element_bytes);
  for (const Rank peer : x.peers()) x.perform(x.copy_from(peer, to[peer], from[peer]));
}

/// Small all_reduce between the ranks of a host: every rank brings its vector when all meet, and combines all
/// of them, in rank order (determinism D3). Cost: the arrival, 1 round; (p-1) * bytes read and reduced per
/// rank; or, where all meet again, 2 rounds, and 2(p-1)/p * bytes read. Streams: main. Scratch: none.
///
/// A vector that all ranks map need not travel: its owner announces it by reference, which spares the copy
/// into a slot whose cache lines the peers hold from the call before last. If all do, each rank combines its
/// share and stores it into all outputs.
///
/// If some do, the others read those vectors in place; who has referred may not overwrite its own yet, so
/// that its result waits in its slot, which is empty, until all have passed the phase.
///
/// Where reading all of all vectors would take longer than to meet again, each rank combines its share, and
/// after a phase takes the others'.
void combine(Exec& x, const AllReduce& op) {
  if (x.all_referred()) return combine_own_share(x, op);
  if (is_shared_out(x, op)) return combine_share(x, op);
  const PlacedSlice output[] = {{x.rank(), until_phase(x, op.recv)}};
  x.perform(x.reduce(output, x.announced(), op.combine));
}

void finish(Exec& x, const AllReduce& op) {
  if (x.all_referred()) return;
  if (is_shared_out(x, op)) return take_shares(x, op);
  take_after_phase(x, op.recv);
}

/// The others' shares.
Cost cost_of_taking(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1) / ranks};
}

/// Where each rank has a core.
Cost cost(std::size_t bytes, Rank ranks) {
  if (is_worth_meeting(bytes, ranks)) return cost_of_own_share(bytes, ranks) + cost_of_taking(bytes, ranks);
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1, .bytes_moved = n, .bytes_reduced = n};
}

const Algorithm<AllReduce> kAlgorithm = {.name = "slots",
                                         .scope = Scope::node,
                                         .order = ReductionOrder::by_rank_at_once,
                                         .cost = cost,
                                         .local = {.announces = Announces::data,
                                                   .combine = combine,
                                                   .finish = finish,
                                                   .meets_again = meets_again,
                                                   .may_refer = true}};

}  // namespace
}  // namespace all_reduce_slots

AnyAlgorithm describe(const struct AllReduceSlots*) { return all_reduce_slots::kAlgorithm; }

}  // namespace cohort
