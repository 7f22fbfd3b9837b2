// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/announced_blocks.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace gather_direct {
namespace {

/// All user windows are mapped.
void store(Exec& x, const Gather& op) { store_at_root(x, op); }

/// The root's memory can be reached: all put their blocks there at the same time.
Task<> into_user_window(Exec& x, Gather op) {
  const Slice block = op.block(x.rank());
  if (x.rank() == op.root)
    co_await x.copy(block, op.send);
  else
    co_await x.push(op.root, block, op.send);
  co_await x.phase();
}

/// What peers have left at `at` of their ccl_out.
Task<> collect(Exec& x, Gather piece, std::size_t at) {
  for (const Rank peer : x.peers()) {
    const Slice block = piece.block(peer);
    co_await x.copy_from(peer, block, x.ccl_out(at, block.bytes));
  }
}

/// Private memory: peers publish a piece in ccl_out, all meet, and the root copies it while they publish the
/// next one.
Task<> through_ccl_buffers(Exec& x, Gather op) {
  const bool is_root = x.rank() == op.root;
  const Staging staging(x, op.size_bytes(), op.element_bytes);
  if (is_root) co_await x.copy(op.block(op.root), op.send);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Gather piece = op.part(staging.offset(k), staging.bytes(k));
    if (!is_root) co_await x.copy(x.ccl_out(staging.place(k), piece.send.bytes), piece.send);
    co_await x.phase();
    if (is_root) co_await collect(x, piece, staging.place(k));
  }
}

/// Direct gather on mapped memory.
/// Cost: 1 phase (zero copy), or 1 phase per piece of half a stage; block bytes stored per
/// rank where the root's memory can be reached, (p-1) * block bytes read by the root elsewhere. Streams:
/// main. Scratch: none.
Task<> gather_direct(Exec& x, Gather op) {
  return x.plan().reaches() ? into_user_window(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank) { return {.rounds = 1, .bytes_moved = static_cast<double>(bytes)}; }

constexpr Algorithm<Gather> kAlgorithm = {.name = "direct",
                                          .scope = Scope::node,
                                          .cost = cost,
                                          .schedule = gather_direct,
                                          .local = {.announces = Announces::windows, .combine = store}};

constexpr Algorithm<GatherV> kVariant = variant_of<GatherV, kAlgorithm>();

}  // namespace
}  // namespace gather_direct

AnyAlgorithm describe(const struct GatherDirect*) { return gather_direct::kAlgorithm; }

AnyAlgorithm describe(const struct GatherVDirect*) { return gather_direct::kVariant; }

}  // namespace cohort
