// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/collected.h>
#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scan_mesh {
namespace {

/// My share of every rank's input, and of every rank's result in the places of the inputs that it is combined
/// from last: peers' in scratch, my own in the result or, where that has to leave it out, in scratch, too.
class Chain : Immovable {
 public:
  Chain(Exec& x, const Scan& op)
      : x_(x),
        op_(op),
        send_(op.send, x.size(), op.element_bytes),
        recv_(op.recv, x.size(), op.element_bytes),
        inputs_(x, send_[x.rank()]) {}

  [[nodiscard]] Slice mine_for(Rank share) const noexcept { return send_[share]; }
  [[nodiscard]] Slice arrival_of(Rank peer) const noexcept { return inputs_.from(peer); }
  /// Of my own result.
  [[nodiscard]] Slice result(Rank share) const noexcept { return recv_[share]; }
  /// My share of that rank's result, once it is combined: it has one.
  [[nodiscard]] Slice result_of(Rank rank) const noexcept {
    const Rank newest = op_.combined_by(rank) - 1;
    return newest == 0 ? inputs_.from(0) : place_of(newest);
  }
  /// Combines them all, from the lowest rank on.
  Task<> combine() {
    for (Rank rank = 1; rank < x_.size(); ++rank) {
      const Rank newest = op_.combined_by(rank) - 1;
      if (newest == 0) continue;
      const PlacedSlice output[] = {{x_.rank(), place_of(newest)}};
      const Slice before = newest == 1 ? inputs_.from(0) : place_of(newest - 1);
      const PlacedSlice both[] = {{x_.rank(), before}, {x_.rank(), inputs_.from(newest)}};
      co_await x_.reduce(output, both, op_.sum());
    }
  }

 private:
  [[nodiscard]] Slice place_of(Rank newest) const noexcept {
    if (newest != x_.rank()) return inputs_.from(newest);
    const std::size_t bytes = send_[x_.rank()].bytes;
    return op_.is_exclusive ? x_.scratch((x_.size() - 1) * bytes, bytes) : recv_[x_.rank()];
  }

  Exec& x_;
  const Scan& op_;
  const Blocks send_;
  const Blocks recv_;
  Collected inputs_;
};

/// The first rank's result is known to it, or there is none.
Task<> hand_out(Exec& x, const Chain& chain, Rank peer) {
  Link& link = x.link(peer);
  if (peer != 0 && x.rank() != 0)
    co_await exchange(x, link, chain.result_of(peer), link, chain.result(peer));
  else if (peer != 0)
    co_await link.send(chain.result_of(peer));
  else
    co_await link.recv(chain.result(peer));
}

Task<> keep_own(Exec& x, Scan op, const Chain& chain) {
  if (x.rank() == 0 && !op.is_exclusive) co_await x.copy(op.recv, op.send);
  if (x.rank() != 0) co_await x.copy(chain.result(x.rank()), chain.result_of(x.rank()));
}

/// Two-shot mesh scan: every rank collects its share of all inputs, combines it rank after rank (determinism
/// D3), and sends every rank but the first its share of the result.
///
/// Cost: 2 rounds; 2(p-1)/p * bytes sent by the first rank, (p-1)/p * bytes reduced per rank, a share less
/// where the own input is left out. Streams: main and p-1 sub streams. Scratch: a share of every input.
/// Source: Rabenseifner's reduce-scatter + gather, of prefixes, both steps on a mesh.
Task<> scan_mesh(Exec& x, Scan op) {
  Chain chain(x, op);
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await exchange(x, link, chain.mine_for(peer), link, chain.arrival_of(peer));
  };
  co_await x.fork_join(x.peers(), swap);
  co_await chain.combine();
  co_await keep_own(x, op, chain);
  auto hand = [&](Rank peer) -> Task<> { return hand_out(x, chain, peer); };
  co_await x.fork_join(x.peers(), hand);
  co_await x.finish_average(op.combine, op.recv);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double share = static_cast<double>(bytes) / ranks;
  const double peers = ranks - 1.0;
  return {.rounds = 2,
          .bytes_moved = 2 * peers * share,
          .bytes_reduced = peers * share,
          .bytes_copied = static_cast<double>(bytes),
          .messages = peers * (ranks + peers),
          .bytes_by_all = peers * (ranks + peers) * share};
}

Cost cost_of_exclusive(std::size_t bytes, Rank ranks) {
  Cost result = cost(bytes, ranks);
  const double share = static_cast<double>(bytes) / ranks;
  result.bytes_reduced -= share;
  return result.copying(share);
}

Needs needs(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = scratch_for_shares(bytes, ranks)};
}

std::size_t largest_piece(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

constexpr Algorithm<Scan> kAlgorithm = {.name = "mesh",
                                        .order = ReductionOrder::by_rank,
                                        .cost = cost,
                                        .needs = needs,
                                        .largest_piece = largest_piece,
                                        .schedule = scan_mesh};

constexpr Algorithm<ExclusiveScan> kVariant = variant_of<ExclusiveScan, kAlgorithm>(cost_of_exclusive);

}  // namespace
}  // namespace scan_mesh

AnyAlgorithm describe(const struct ScanMesh*) { return scan_mesh::kAlgorithm; }

AnyAlgorithm describe(const struct ExclusiveScanMesh*) { return scan_mesh::kVariant; }

}  // namespace cohort
