// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scatter_direct {
namespace {

/// All user windows are mapped.
void take_own_block(Exec& x, const Scatter& op) {
  x.perform(x.copy_from(op.root, op.recv, op.block(x.rank())));
}

/// The root's memory can be read.
Task<> from_user_window(Exec& x, Scatter op) {
  if (x.rank() == op.root)
    co_await x.copy(op.recv, op.block(op.root));
  else
    co_await x.pull(op.root, op.recv, op.block(x.rank()));
  co_await x.phase();
}

/// Where a piece of that rank's block lies in the root's ccl_in.
Slice published(Exec& x, const Scatter& piece, std::size_t at, Rank rank) {
  return x.ccl_in(at + rank * piece.size_bytes(), piece.block(rank).bytes);
}

Task<> publish(Exec& x, Scatter piece, std::size_t at) {
  for (const Rank peer : x.peers()) co_await x.copy(published(x, piece, at, peer), piece.block(peer));
}

/// Private memory: the root publishes a piece of every peer's block in ccl_in, all meet, and they copy it
/// while it publishes the next one.
Task<> through_ccl_buffer(Exec& x, Scatter op) {
  const bool is_root = x.rank() == op.root;
  const Staging staging = Staging::of_root(x, op.size_bytes(), op.element_bytes, x.size());
  if (is_root) co_await x.copy(op.recv, op.block(op.root));
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Scatter piece = op.part(staging.offset(k), staging.bytes(k));
    const std::size_t at = staging.place(k);
    if (is_root) co_await publish(x, piece, at);
    co_await x.phase();
    if (!is_root) co_await x.copy_from(op.root, piece.recv, published(x, piece, at, x.rank()));
  }
}

/// Direct scatter on mapped memory: everybody reads its block of the root's buffer.
/// Cost: 1 phase (zero copy), or 1 phase per piece of half a stage; block bytes read per
/// rank. Streams: main. Scratch: none.
Task<> scatter_direct(Exec& x, Scatter op) {
  return x.plan().reaches() ? from_user_window(x, op) : through_ccl_buffer(x, op);
}

Cost cost(std::size_t bytes, Rank) { return {.rounds = 1, .bytes_moved = static_cast<double>(bytes)}; }

constexpr Algorithm<Scatter> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .cost = cost,
    .schedule = scatter_direct,
    .local = {.announces = Announces::windows, .combine = take_own_block}};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace
}  // namespace scatter_direct

AnyAlgorithm describe(const struct ScatterDirect*) { return scatter_direct::kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVDirect*) { return scatter_direct::kVariant; }

}  // namespace cohort
