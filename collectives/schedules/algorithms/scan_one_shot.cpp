// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/placed.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scan_one_shot {
namespace {

/// What a lower rank sends.
Slice arrival(Exec& x, const Scan& op, Rank from) { return x.scratch(from * op.send.bytes, op.send.bytes); }

/// To a higher rank its vector, from a lower one its own.
Task<> give_or_take(Exec& x, Scan op, Rank peer) {
  Link& link = x.link(peer);
  const bool joint = is_joint(op.send.bytes, x.size());
  if (peer > x.rank()) {
    co_await link.send(op.send);
    if (joint) co_await link.wait(Signal::Ack);
    co_return;
  }
  if (joint) co_await link.post(Signal::Ack);
  co_await link.recv(arrival(x, op, peer));
}

/// One-shot scan: every rank sends its vector to all higher ones and combines what it gets, in rank order
/// (determinism D3). Cost: 1 round; (p-1) * bytes sent by the first rank, (p-1) * bytes reduced by the last,
/// one vector less where its own is left out. Streams: main and p-1 sub streams. Scratch: (p-1) * bytes.
Task<> scan_one_shot(Exec& x, Scan op) {
  auto meet = [&](Rank peer) -> Task<> { return give_or_take(x, op, peer); };
  co_await x.fork_join(x.peers(), meet);
  const Rank combined = op.combined_by(x.rank());
  Placed operands(x, op.send);
  for (Rank lower = 0; lower < x.rank(); ++lower) operands.replace(lower, arrival(x, op, lower));
  operands.bring_home(x.rank());
  const auto inputs = operands.slices().first(combined);
  if (combined == 1) co_await x.copy(op.recv, inputs[0].slice);
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  if (combined > 1) co_await x.reduce(output, inputs, op.combine);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  return {.rounds = 1,
          .bytes_moved = n * (ranks - 1.0),
          .bytes_reduced = n * (ranks - 1.0),
          .bytes_copied = n,
          .messages = ranks / 2.0 * messages_with_root(bytes, ranks),
          .bytes_by_all = n * ranks * (ranks - 1.0) / 2,
          .messages_of_one = ranks - 1.0,
          .bytes_of_one = n * (ranks - 1.0),
          .messages_to_one = ranks - 1.0};
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  Cost result = cost(bytes, ranks);
  result.bytes_reduced -= static_cast<double>(bytes);
  return result;
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = bytes * (ranks - 1)};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank ranks) { return buffer_bytes / (ranks - 1); }

constexpr Algorithm<Scan> kAlgorithm = {.name = "one_shot",
                                        .order = ReductionOrder::by_rank_at_once,
                                        .cost = cost,
                                        .needs = needs,
                                        .largest_piece = largest_piece,
                                        .schedule = scan_one_shot};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace
}  // namespace scan_one_shot

AnyAlgorithm describe(const struct ScanOneShot*) { return scan_one_shot::kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanOneShot*) { return scan_one_shot::kVariant; }

}  // namespace cohort
