// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/variant.h>

#include <utility>

namespace cohort {
namespace scan_direct {
namespace {

// Rank r computes share r of every rank's result, one rank after the other: each is the one before and one
// more input, so that a share is read and written once in all.

/// Where all user windows are mapped, and results include the own input: each is stored where it belongs. In
/// place an input is combined as its own result takes its place.
void chain_shares(Exec& x, const Scan& op) {
  const Slice input = Blocks(op.send, x.size(), op.element_bytes)[x.rank()];
  const Slice result = Blocks(op.recv, x.size(), op.element_bytes)[x.rank()];
  if (x.rank() == 0) x.perform(x.copy(op.recv, op.send));
  for (Rank rank = 1; rank < x.size(); ++rank) {
    const PlacedSlice output[] = {{rank, result}};
    const PlacedSlice inputs[] = {{rank - 1, rank == 1 ? input : result}, {rank, input}};
    x.perform(x.reduce(output, inputs, op.sum()));
  }
}

/// Where they exclude it: the running sum alternates between two places, since in place a result takes the
/// place of an input that belongs to the next ones.
void chain_chunk(Exec& x, const Scan& op, const Slice& input, const Slice& result) {
  Slice sum = x.ccl_in(0, input.bytes);
  Slice next = x.ccl_in(x.plan().stage_bytes / 2 / op.element_bytes * op.element_bytes, input.bytes);
  x.perform(x.copy_from(0, sum, input));
  for (Rank rank = 1; rank < x.size(); ++rank) {
    const PlacedSlice output[] = {{x.rank(), next}};
    const PlacedSlice inputs[] = {{x.rank(), sum}, {rank, input}};
    if (rank + 1 < x.size()) x.perform(x.reduce(output, inputs, op.sum()));
    x.perform(x.copy_to(rank, result, sum));
    std::swap(sum, next);
  }
}

/// The same of two ranks: there is no sum.
void give_first_input(Exec& x, const Scan& op, const Slice& input, const Slice& result) {
  const PlacedSlice output[] = {{1, result}};
  const PlacedSlice first[] = {{0, input}};
  x.perform(x.reduce(output, first, op.sum()));
}

void combine_on_user_windows(Exec& x, const Scan& op) {
  if (!op.is_exclusive) return chain_shares(x, op);
  const Slice input = Blocks(op.send, x.size(), op.element_bytes)[x.rank()];
  const Slice result = Blocks(op.recv, x.size(), op.element_bytes)[x.rank()];
  if (x.size() == 2) return give_first_input(x, op, input, result);
  const std::size_t chunk = x.plan().stage_bytes / 2 / op.element_bytes * op.element_bytes;
  for (std::size_t at = 0; at < input.bytes; at += chunk) {
    const std::size_t bytes = std::min(chunk, input.bytes - at);
    chain_chunk(x, op, input.part(at, bytes), result.part(at, bytes));
  }
}

void divide(Exec& x, const Scan& op) { x.perform(x.finish_average(op.combine, op.recv)); }

/// The same through the CCL buffers: a piece of every share at once.
class Pieces {
 public:
  Pieces(Exec& x, const Scan& op) noexcept
      : x_(x), op_(op), staging_(x, share(op.send, 0).bytes, op.element_bytes, x.size()) {}

  [[nodiscard]] std::size_t count() const noexcept { return staging_.pieces(); }
  [[nodiscard]] Slice input(std::size_t piece, Rank of_share) const noexcept {
    return clipped(share(op_.send, of_share), staging_.offset(piece), staging_.bytes(piece));
  }
  [[nodiscard]] Slice result(std::size_t piece, Rank of_share) const noexcept {
    return clipped(share(op_.recv, of_share), staging_.offset(piece), staging_.bytes(piece));
  }
  /// What a rank gives to that share, in its ccl_in.
  [[nodiscard]] Slice published(std::size_t piece, Rank of_share) const noexcept {
    return x_.ccl_in(place(piece, of_share), input(piece, of_share).bytes);
  }
  /// A share of that rank's result, in the ccl_out of whoever computes it.
  [[nodiscard]] Slice computed(std::size_t piece, Rank of_share, Rank for_rank) const noexcept {
    return x_.ccl_out(place(piece, for_rank), input(piece, of_share).bytes);
  }

 private:
  [[nodiscard]] Slice share(const Slice& whole, Rank of) const noexcept {
    return Blocks(whole, x_.size(), op_.element_bytes)[of];
  }
  [[nodiscard]] std::size_t place(std::size_t piece, Rank slot) const noexcept {
    return staging_.place(piece) + slot * staging_.bytes(piece);
  }

  Exec& x_;
  const Scan& op_;
  const Staging staging_;
};

/// Nobody wants what the last rank gives where results exclude it.
bool is_wanted(const Exec& x, const Scan& op) { return !op.is_exclusive || x.rank() + 1 < x.size(); }

Task<> publish(Exec& x, const Pieces& pieces, std::size_t k) {
  for (const Rank peer : x.peers()) co_await x.copy(pieces.published(k, peer), pieces.input(k, peer));
}

/// My share of every rank's result, for them to collect.
Task<> chain_published(Exec& x, Scan op, const Pieces& pieces, std::size_t k) {
  const Rank me = x.rank();
  const auto input_of = [&](Rank rank) -> PlacedSlice {
    return {rank, rank == me ? pieces.input(k, me) : pieces.published(k, me)};
  };
  const auto result_of = [&](Rank rank) -> PlacedSlice { return {me, pieces.computed(k, me, rank)}; };
  for (Rank rank = 1; rank < x.size(); ++rank) {
    const PlacedSlice output[] = {result_of(rank)};
    const Rank newest = op.combined_by(rank) - 1;
    if (newest == 0) {
      co_await x.copy_from(0, output[0].slice, input_of(0).slice);
      continue;
    }
    const PlacedSlice inputs[] = {newest == 1 ? input_of(0) : result_of(rank - 1), input_of(newest)};
    co_await x.reduce(output, inputs, op.sum());
  }
}

Task<> collect(Exec& x, const Pieces& pieces, std::size_t k) {
  co_await x.copy(pieces.result(k, x.rank()), pieces.computed(k, x.rank(), x.rank()));
  for (const Rank peer : x.peers())
    co_await x.copy_from(peer, pieces.result(k, peer), pieces.computed(k, peer, x.rank()));
}

/// Private memory of two ranks that run at the same time: the first publishes its vector piece by piece, and
/// the second takes a piece while the next one is published.
Task<> pass_on(Exec& x, Scan op) {
  const bool is_first = x.rank() == 0;
  const Staging staging = Staging::of_root(x, op.send.bytes, op.element_bytes);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Scan piece = op.part(staging.offset(k), staging.bytes(k));
    const Slice published = x.ccl_in(staging.place(k), piece.send.bytes);
    if (is_first) co_await x.copy(published, piece.send);
    co_await x.phase();
    if (is_first) continue;
    const PlacedSlice output[] = {{1, piece.recv}};
    const PlacedSlice inputs[] = {{0, published}, {1, piece.send}};
    if (op.is_exclusive)
      co_await x.copy_from(0, piece.recv, published);
    else
      co_await x.reduce(output, inputs, op.sum());
  }
  if (is_first && !op.is_exclusive) co_await x.copy(op.recv, op.send);
  co_await x.finish_average(op.combine, op.recv);
}

/// Direct scan on mapped memory: rank r combines share r of all inputs, in rank order (determinism D3), to
/// all ranks' results.
///
/// Cost: 1 phase (zero copy), or 1 phase per piece of half a stage, and 1 more for shares; about 2(p-1)/p *
/// bytes read, (p-1)/p * bytes stored at peers and reduced per rank. Streams: main. Scratch: none. Source:
/// the reduce-scatter + gather composition of Rabenseifner 2004, of prefixes.
Task<> scan_direct(Exec& x, Scan op) {
  if (x.size() == 2 && x.plan().has_core_each()) {
    co_await pass_on(x, op);
    co_return;
  }
  const Pieces pieces(x, op);
  const bool has_result = op.combined_by(x.rank()) != 0;
  const bool gives = is_wanted(x, op);
  if (gives && pieces.count() > 0) co_await publish(x, pieces, 0);
  co_await x.phase();
  if (x.rank() == 0 && has_result) co_await x.copy(op.recv, op.send);
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    co_await chain_published(x, op, pieces, k);
    if (gives && k + 1 < pieces.count()) co_await publish(x, pieces, k + 1);
    co_await x.phase();
    if (x.rank() != 0) co_await collect(x, pieces, k);
  }
  co_await x.finish_average(op.combine, op.recv);
}

/// Of the user windows: the first rank reads one share less of the sums that it passes on itself.
Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) / ranks;
  return {.rounds = 1, .bytes_moved = share * (2.0 * ranks - 3), .bytes_reduced = share * (ranks - 1.0)};
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) / ranks;
  return {.rounds = 1, .bytes_moved = share * (ranks - 1.0), .bytes_reduced = share * (ranks - 2.0)};
}

constexpr Algorithm<Scan> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank,
    .cost = cost,
    .schedule = scan_direct,
    .local = {.announces = Announces::windows, .combine = combine_on_user_windows, .finish = divide}};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace
}  // namespace scan_direct

AnyAlgorithm describe(const struct ScanDirect*) { return scan_direct::kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanDirect*) { return scan_direct::kVariant; }

}  // namespace cohort
