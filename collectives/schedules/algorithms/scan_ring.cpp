// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

#include <cohort/collectives/schedules/links/chunks.h>
#include <cohort/collectives/schedules/variant.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <limits>

namespace cohort {
namespace scan_ring {
namespace {

/// Where the own input is left out, a result is no sum to pass on: sums wait in so many chunks of scratch, in
/// turn, of which one is sent while the next is made.
constexpr std::size_t kSums = 2;

/// Where chunks are, of one rank of the chain.
class Places {
 public:
  Places(Exec& x, const Scan& op) : x_(x), op_(op) {}

  [[nodiscard]] std::size_t count() const noexcept { return chunks(op_.send); }
  [[nodiscard]] Slice own(std::size_t index) const noexcept { return chunk(op_.send, index); }
  [[nodiscard]] Slice result(std::size_t index) const noexcept { return chunk(op_.recv, index); }
  /// What comes from the rank before, until it is combined.
  [[nodiscard]] Slice arrival(std::size_t index) const noexcept { return x_.scratch(0, own(index).bytes); }
  /// What the next rank gets.
  [[nodiscard]] Slice sum(std::size_t index) const noexcept {
    if (!op_.is_exclusive) return result(index);
    const std::size_t at = 1 + index % kSums;
    return x_.scratch(at * std::min(op_.send.bytes, tuning::links::kChunk), own(index).bytes);
  }
  /// Whether a sum's place has one that has to be sent first.
  [[nodiscard]] bool has_earlier(std::size_t index) const noexcept {
    return op_.is_exclusive && index >= kSums;
  }
  [[nodiscard]] bool has_later(std::size_t index) const noexcept {
    return op_.is_exclusive && index + kSums < count();
  }

 private:
  Exec& x_;
  const Scan& op_;
};

/// Chunks as they come, and what they become, which the forwarding stream, if there is one, is told of.
Task<> combine_chunks(Exec& x, Scan op, const Places& at, LocalNotify* summed, LocalNotify* sent) {
  Link& previous = x.link(x.behind(1));
  for (std::size_t k = 0; k < at.count(); ++k) {
    co_await previous.recv(at.arrival(k));
    if (at.has_earlier(k)) co_await sent->wait();
    const PlacedSlice output[] = {{x.rank(), at.sum(k)}};
    const PlacedSlice both[] = {{x.rank(), at.arrival(k)}, {x.rank(), at.own(k)}};
    co_await x.reduce(output, both, op.sum());
    if (summed != nullptr) summed->post();
    if (op.is_exclusive) co_await x.copy(at.result(k), at.arrival(k));
  }
}

Task<> pass_sums(Exec& x, const Places& at, LocalNotify& summed, LocalNotify& sent) {
  Link& next = x.link(x.ahead(1));
  for (std::size_t k = 0; k < at.count(); ++k) {
    co_await summed.wait();
    co_await next.send(at.sum(k));
    if (at.has_later(k)) sent.post();
  }
}

/// Ring scan: a chain from the first rank to the last, in chunks, every rank passing on the sum of one chunk
/// while it combines the next, lower ranks first (determinism D3); closed as broadcast_ring is.
///
/// Cost: 2p - 1 + chunks rounds; bytes sent per rank, and reduced by all but the first, and but the last
/// where the own input is left out. Streams: main and two sub streams. Scratch: a chunk, three where the own
/// input is left out. Source: the linear scan of MPI libraries, in chunks, as the chain of broadcast_ring.
Task<> scan_ring(Exec& x, Scan op) {
  const Places at(x, op);
  const bool is_first = x.rank() == 0;
  const bool is_last = x.ahead(1) == 0;
  LocalNotify summed = x.notify(std::numeric_limits<std::uint32_t>::max());
  LocalNotify sent = x.notify(kSums);
  if (is_first) {
    post_chunks(op.send, summed);
    co_await pass_chunks(x.link(x.ahead(1)), op.send, summed);
    if (!op.is_exclusive) co_await x.copy(op.recv, op.send);
  } else if (is_last && op.is_exclusive) {
    co_await take_chunks(x.link(x.behind(1)), op.recv, nullptr);
  } else if (is_last) {
    co_await combine_chunks(x, op, at, nullptr, nullptr);
  } else {
    auto combine = [&] { return combine_chunks(x, op, at, &summed, &sent); };
    auto pass = [&] { return pass_sums(x, at, summed, sent); };
    co_await x.fork_join(combine, pass);
  }
  if (!is_first) co_await x.finish_average(op.combine, op.recv);
  co_await close_chain(x, 0);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes);
  Cost result = cost_of_closed_chain(bytes, ranks);
  result.bytes_reduced = n;
  result.bytes_copied = n;
  return result;
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  const bool has_middle = ranks > 2;
  return has_middle ? cost(bytes, ranks) : cost_of_closed_chain(bytes, ranks);
}

Needs needs(std::size_t bytes, Rank) {
  return {.links_to_neighbours = true, .scratch_bytes = (1 + kSums) * std::min(bytes, tuning::links::kChunk)};
}

/// As long as chunks fit; else what fits is one.
std::size_t largest_piece(std::size_t buffer_bytes, Rank) {
  const std::size_t largest_chunk = buffer_bytes / (1 + kSums);
  return largest_chunk >= tuning::links::kChunk ? kWholeMessage : largest_chunk;
}

constexpr Algorithm<Scan> kAlgorithm = {.name = "ring",
                                        .distances = Distances::neighbours,
                                        .order = ReductionOrder::by_rank,
                                        .cost = cost,
                                        .needs = needs,
                                        .largest_piece = largest_piece,
                                        .schedule = scan_ring};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace
}  // namespace scan_ring

AnyAlgorithm describe(const struct ScanRing*) { return scan_ring::kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanRing*) { return scan_ring::kVariant; }

}  // namespace cohort
