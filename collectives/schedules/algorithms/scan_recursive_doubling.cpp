// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/variant.h>

#include <algorithm>

namespace cohort {
namespace scan_recursive_doubling {
namespace {

/// Of one round: the sum goes ahead, an Ack where nobody is there, which goes around to the first ranks.
Task<> give(Exec& x, Rank distance, Slice sum) {
  Link& link = x.link(x.ahead(distance));
  if (x.rank() + distance < x.size())
    co_await link.send(sum);
  else
    co_await link.post(Signal::Ack);
}

Task<> take(Exec& x, Rank distance, Slice arrival) {
  Link& link = x.link(x.behind(distance));
  if (x.rank() >= distance)
    co_await link.recv(arrival);
  else
    co_await link.wait(Signal::Ack);
}

/// What comes is of lower ranks: it goes first.
Task<> put_before(Exec& x, Scan op, Slice sum, Slice lower) {
  const PlacedSlice output[] = {{x.rank(), sum}};
  const PlacedSlice inputs[] = {{x.rank(), lower}, {x.rank(), sum}};
  co_await x.reduce(output, inputs, op.sum());
}

/// Where the own input is left out, what comes is also gathered in the result.
Task<> add_to_exclusive(Exec& x, Scan op, Rank distance, Slice lower) {
  if (distance == 1)
    co_await x.copy(op.recv, lower);
  else
    co_await put_before(x, op, op.recv, lower);
}

/// Recursive doubling scan: in round k every rank sends the sum of the 2^k ranks up to itself to the one 2^k
/// ahead, which puts it before its own.
///
/// Cost: ceil(log2 p) rounds; bytes sent per round and rank, and reduced as often or, where the own input is
/// left out, up to twice. Streams: main and two sub streams. Scratch: bytes, twice where the own input is
/// left out. Order of reduction: by rank, in groups of powers of two (determinism D1). Source: Hillis and
/// Steele 1986.
///
/// The Acks tell the first ranks, which get little, that all run the same collective.
Task<> scan_recursive_doubling(Exec& x, Scan op) {
  const std::size_t bytes = op.send.bytes;
  const Slice arrival = x.scratch(0, bytes);
  const Slice sum = op.is_exclusive ? x.scratch(bytes, bytes) : op.recv;
  const bool gives = x.rank() + 1 < x.size();
  if (gives || !op.is_exclusive) co_await x.copy(sum, op.send);
  for (Rank distance = 1; distance < x.size(); distance *= 2) {
    auto give_sum = [&] { return give(x, distance, sum); };
    auto take_lower = [&] { return take(x, distance, arrival); };
    co_await x.fork_join(give_sum, take_lower);
    if (x.rank() < distance) continue;
    const bool is_passed_on = x.rank() + 2 * distance < x.size();
    if (op.is_exclusive) co_await add_to_exclusive(x, op, distance, arrival);
    if (!op.is_exclusive || is_passed_on) co_await put_before(x, op, sum, arrival);
  }
  co_await x.finish_average(op.combine, op.recv);
}

/// visit(distance) for each round.
template <class Visit>
void for_rounds(Rank ranks, Visit visit) {
  for (Rank distance = 1; distance < ranks; distance *= 2) visit(distance);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  double rounds = 0;
  double sums = 0;
  for_rounds(ranks, [&](Rank distance) {
    ++rounds;
    sums += ranks - distance;
  });
  return {.rounds = rounds,
          .bytes_moved = n * rounds,
          .bytes_reduced = n * rounds,
          .bytes_copied = n,
          .messages = rounds * ranks,
          .bytes_by_all = n * sums};
}

/// Combinations of one rank: for its result, and for what it passes on.
Rank combinations(Rank rank, Rank ranks) {
  Rank count = 0;
  for_rounds(ranks, [&](Rank distance) {
    if (rank < distance) return;
    count += distance > 1 ? 1 : 0;
    count += rank + 2 * distance < ranks ? 1 : 0;
  });
  return count;
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  Rank most = 0;
  for (Rank rank = 0; rank < ranks; ++rank) most = std::max(most, combinations(rank, ranks));
  Cost result = cost(bytes, ranks);
  result.bytes_reduced = static_cast<double>(bytes) * most;
  // In the first round all but the first rank take what comes, all but the last have copied their own.
  return ranks > 2 ? result.copying(2.0 * static_cast<double>(bytes)) : result;
}

Needs needs(std::size_t bytes, Rank) { return {.links_to_all = true, .scratch_bytes = 2 * bytes}; }

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes / 2; }

constexpr Algorithm<Scan> kAlgorithm = {.name = "recursive_doubling",
                                        .distances = Distances::swaps,
                                        .cost = cost,
                                        .needs = needs,
                                        .largest_piece = largest_piece,
                                        .schedule = scan_recursive_doubling};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace
}  // namespace scan_recursive_doubling

AnyAlgorithm describe(const struct ScanRecursiveDoubling*) { return scan_recursive_doubling::kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanRecursiveDoubling*) {
  return scan_recursive_doubling::kVariant;
}

}  // namespace cohort
