// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/by_dissemination.h>
#include <cohort/collectives/schedules/links/by_levels.h>

namespace cohort {
namespace all_reduce_mesh_nhr_pipelined {
namespace {

using dissemination::Order;
using dissemination::Towards;

/// So few and so large that the rounds of each, one after the other, cost less than levels that wait for each
/// other; powers of two, so that most vectors divide evenly.
constexpr std::size_t kMostPieces = 8;
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;
std::size_t pieces_of(std::size_t bytes, const Hosts& hosts) {
  const bool has_both = hosts.count() > 1 && hosts.most_ranks() > 1;
  const std::size_t pieces = std::bit_ceil((bytes + kLeastBytes - 1) / kLeastBytes);
  return has_both ? std::clamp<std::size_t>(pieces, 1, kMostPieces) : 1;
}
/// Scratch that a level wants for the largest piece, in whole cache lines: that of the next one begins behind
/// it, and no element may lie across.
std::size_t scratch_of_level(std::size_t bytes, const Hosts& hosts) {
  constexpr std::size_t kLine = 64;
  const std::size_t least = levels::needs_of_vector(bytes / pieces_of(bytes, hosts), hosts).scratch_bytes;
  return (least + kLine - 1) / kLine * kLine;
}

Task<> across(Exec& x, AllReduce op) {
  return dissemination::all_reduce(x, op, Order::farthest_first, Towards::next, Order::farthest_first);
}

/// Piece after piece, each step on a stream: what goes on from one to the next are notifies.
Task<> in_pieces(Exec& x, AllReduce op) {
  Exec& inside = x.inside();
  Exec& outside = x.across();
  inside.use_scratch_from(0);
  outside.use_scratch_from(scratch_of_level(op.send.bytes, x.hosts()));
  const std::size_t pieces = pieces_of(op.send.bytes, x.hosts());
  const Blocks send(op.send, pieces, op.element_bytes);
  const Blocks recv(op.recv, pieces, op.element_bytes);
  LocalNotify combined = x.notify(static_cast<std::uint32_t>(pieces));
  LocalNotify finished = x.notify(static_cast<std::uint32_t>(pieces));
  const auto mine = [&](std::size_t k) {
    return Blocks(recv[k], inside.size(), op.element_bytes)[inside.rank()];
  };
  auto combine_inside = [&]() -> Task<> {
    for (std::size_t k = 0; k < pieces; ++k) {
      const Blocks shares(send[k], inside.size(), op.element_bytes);
      co_await exchange_shares(inside, shares, mine(k), levels::undivided(op.combine));
      combined.post();
    }
  };
  auto combine_across = [&]() -> Task<> {
    for (std::size_t k = 0; k < pieces; ++k) {
      const AllReduce rest{mine(k), mine(k), op.combine, op.element_bytes};
      co_await combined.wait();
      co_await across(outside, rest);
      finished.post();
    }
  };
  auto spread_inside = [&]() -> Task<> {
    for (std::size_t k = 0; k < pieces; ++k) {
      const Blocks shares(recv[k], inside.size(), op.element_bytes);
      co_await finished.wait();
      co_await spread_shares(inside, shares, 1);
    }
  };
  co_await x.fork_join(combine_inside, combine_across, spread_inside);
}

/// mesh_nhr in up to 8 pieces, of 64 KiB and more: while one passes between hosts, the next one is combined
/// inside of them, and the one before is spread there.
///
/// Cost, m hosts of q ranks, k pieces: 2 + 2k ceil(log2 m) rounds; bytes as mesh_nhr, but both levels carry
/// theirs at once.
///
/// Streams: three, and q-1 or two sub streams of each. Scratch: 2/k * bytes. Order of reduction: by rank
/// inside of a host, then as nhr (determinism D1). Source: two-level pipelines as in HCCL's guide, with the
/// levels of all_reduce_mesh_nhr.
///
/// Only by name, without a cost(): an estimate would add up what goes on at once here.
Task<> all_reduce_mesh_nhr_pipelined(Exec& x, AllReduce op) {
  return pieces_of(op.send.bytes, x.hosts()) > 1 ? in_pieces(x, op) : levels::all_reduce(x, op, across);
}

Needs needs(std::size_t bytes, const Hosts& hosts) {
  Needs needs = levels::needs_of_vector(bytes, hosts);
  if (pieces_of(bytes, hosts) == 1) return needs;
  needs.scratch_bytes = 2 * scratch_of_level(bytes, hosts);
  needs.lanes = 2;
  needs.lanes_across = 1;
  return needs;
}

/// Of which scratch for two pieces fits.
std::size_t largest_piece(std::size_t buffer_bytes, const Hosts& hosts) {
  const bool is_cut = buffer_bytes >= 2 * kLeastBytes && pieces_of(buffer_bytes, hosts) > 1;
  return is_cut ? buffer_bytes / 2 * kMostPieces : buffer_bytes;
}

const Algorithm<AllReduce> kAlgorithm = {.name = "mesh_nhr_pipelined",
                                         .levels = Levels::equal_hosts,
                                         .needs = needs,
                                         .largest_piece = largest_piece,
                                         .schedule = all_reduce_mesh_nhr_pipelined};

}  // namespace
}  // namespace all_reduce_mesh_nhr_pipelined

AnyAlgorithm describe(const struct AllReduceMeshNhrPipelined*) {
  return all_reduce_mesh_nhr_pipelined::kAlgorithm;
}

}  // namespace cohort
