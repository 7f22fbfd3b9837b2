// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>

namespace cohort {
namespace {

/// Above, to copy it once more, in pieces that others read meanwhile, is faster: 2 ranks, 64 KiB, 1.4 in
/// place of 2.6 us.
constexpr std::size_t kMostReferred = std::size_t{32} << 10;

/// Small broadcast between the ranks of a host: the root brings its data as it comes, or says where it is
/// if all map it, and everybody takes it from there. Cost: the meeting, 1 round; bytes read per rank.
/// Streams: main. Scratch: none.
void take(Exec& x, const Broadcast& op) {
  if (x.rank() != op.root) x.perform(x.copy_from(op.root, op.data, x.announced()[op.root].slice));
}

Cost cost(std::size_t bytes, Rank) { return {.rounds = 1, .bytes_moved = static_cast<double>(bytes)}; }

const Algorithm<Broadcast> kAlgorithm = {
    .name = "slots",
    .ground = Ground::mapped,
    .cost = cost,
    .local = {.announces = Announces::data, .combine = take, .refers_up_to = kMostReferred}};

}  // namespace

AnyAlgorithm describe(const struct BroadcastSlots*) { return kAlgorithm; }

}  // namespace cohort
