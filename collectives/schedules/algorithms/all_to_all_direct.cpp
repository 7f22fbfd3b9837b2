// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace all_to_all_direct {
namespace {

/// All user windows are mapped: everybody takes its block of each peer's input, nearest peer first, so that
/// not all read the same one.
void take_own_blocks(Exec& x, const AllToAll& op) {
  x.perform(x.copy(op.from(x.rank()), op.to(x.rank())));
  for (const Rank peer : x.peers()) x.perform(x.copy_from(peer, op.from(peer), op.at_giver(peer)));
}

/// Every rank's memory can be read.
Task<> from_user_windows(Exec& x, AllToAll op) {
  co_await x.copy(op.from(x.rank()), op.to(x.rank()));
  for (const Rank peer : x.peers()) co_await x.pull(peer, op.from(peer), op.at_giver(peer));
  co_await x.phase();
}

/// Where the piece for that rank lies in its giver's ccl_in.
Slice published(Exec& x, const AllToAll& piece, std::size_t at, Rank taker, std::size_t bytes) {
  return x.ccl_in(at + taker * piece.size_bytes(), bytes);
}

Task<> publish(Exec& x, AllToAll piece, std::size_t at) {
  for (const Rank peer : x.peers()) {
    const Slice theirs = piece.to(peer);
    co_await x.copy(published(x, piece, at, peer, theirs.bytes), theirs);
  }
}

Task<> take_published(Exec& x, AllToAll piece, std::size_t at) {
  for (const Rank peer : x.peers()) {
    const Slice block = piece.from(peer);
    co_await x.copy_from(peer, block, published(x, piece, at, x.rank(), block.bytes));
  }
}

/// Private memory: publish a piece of every block in ccl_in, meet, take the own ones while the next ones are
/// published.
Task<> through_ccl_buffers(Exec& x, AllToAll op) {
  const Staging staging(x, op.size_bytes(), op.element_bytes, x.size());
  co_await x.copy(op.from(x.rank()), op.to(x.rank()));
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const AllToAll piece = op.part(staging.offset(k), staging.bytes(k));
    const std::size_t at = staging.place(k);
    co_await publish(x, piece, at);
    co_await x.phase();
    co_await take_published(x, piece, at);
  }
}

/// Direct all_to_all on mapped memory: everybody reads, nobody is asked.
/// Cost: 1 phase (zero copy), or 1 phase per piece of half a stage; (p-1) * block bytes read
/// per rank. Streams: main. Scratch: none.
Task<> all_to_all_direct(Exec& x, AllToAll op) {
  return x.plan().reaches() ? from_user_windows(x, op) : through_ccl_buffers(x, op);
}

Cost cost(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

constexpr Algorithm<AllToAll> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .cost = cost,
    .schedule = all_to_all_direct,
    .local = {.announces = Announces::windows, .combine = take_own_blocks}};

constexpr Algorithm<AllToAllVc> kVariant = variant_of<AllToAllVc, kAlgorithm>();

}  // namespace
}  // namespace all_to_all_direct

AnyAlgorithm describe(const struct AllToAllDirect*) { return all_to_all_direct::kAlgorithm; }

AnyAlgorithm describe(const struct AllToAllVcDirect*) { return all_to_all_direct::kVariant; }

}  // namespace cohort
