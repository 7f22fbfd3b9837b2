// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/shares.h>

namespace cohort {
namespace broadcast_slots {
namespace {

/// Small broadcast between the ranks of a host: the root brings its data as it comes, or says where it is
/// if all map it, and everybody takes it from there; where all of it is mapped, the root stores a share at
/// its peers. Cost: the arrival, 1 round; bytes read per rank. Streams: main. Scratch: none.
void take(Exec& x, const Broadcast& op) {
  if (x.all_referred()) return copy_at_both_ends(x, op);
  if (x.rank() != op.root) x.perform(x.copy_from(op.root, op.data, x.announced()[op.root].slice));
}

Cost cost(std::size_t bytes, Rank) { return {.rounds = 1, .bytes_moved = static_cast<double>(bytes)}; }

const Algorithm<Broadcast> kAlgorithm = {
    .name = "slots",
    .scope = Scope::node,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take, .may_refer = true}};

}  // namespace
}  // namespace broadcast_slots

AnyAlgorithm describe(const struct BroadcastSlots*) { return broadcast_slots::kAlgorithm; }

}  // namespace cohort
