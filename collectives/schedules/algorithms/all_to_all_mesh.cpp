// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/block_exchange.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace all_to_all_mesh {
namespace {

/// Mesh all_to_all: every rank exchanges blocks with every peer, all at once.
/// Cost: 1 round; (p-1) * block bytes sent per rank. Streams: main and p-1 sub streams. Scratch: none.
/// Source: Thakur, Rabenseifner, Gropp 2005, section 4.2, all messages posted at once.
Task<> all_to_all_mesh(Exec& x, AllToAll op) {
  auto to = [&](Rank rank) { return op.to(rank); };
  auto from = [&](Rank rank) { return op.from(rank); };
  co_await exchange_at_once(x, to, from);
  co_await x.copy(op.from(x.rank()), op.to(x.rank()));
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 1,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

constexpr Algorithm<AllToAll> kAlgorithm = {
    .name = "mesh", .cost = cost, .needs = links_to_all, .schedule = all_to_all_mesh};

constexpr Algorithm<AllToAllVc> kVariant = variant_of<AllToAllVc, kAlgorithm>();

}  // namespace
}  // namespace all_to_all_mesh

AnyAlgorithm describe(const struct AllToAllMesh*) { return all_to_all_mesh::kAlgorithm; }

AnyAlgorithm describe(const struct AllToAllVcMesh*) { return all_to_all_mesh::kVariant; }

}  // namespace cohort
