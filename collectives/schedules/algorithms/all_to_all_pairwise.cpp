// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/block_exchange.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace all_to_all_pairwise {
namespace {

/// Pairwise all_to_all: in step t every rank sends to the one t ahead and receives from the one t behind, so
/// that nobody gets from two at once. Cost: p-1 rounds; (p-1) * block bytes sent per rank. Streams: main and
/// two sub streams. Scratch: none. Source: Thakur, Rabenseifner, Gropp 2005, section 4.2.
Task<> all_to_all_pairwise(Exec& x, AllToAll op) {
  auto to = [&](Rank rank) { return op.to(rank); };
  auto from = [&](Rank rank) { return op.from(rank); };
  co_await x.copy(op.from(x.rank()), op.to(x.rank()));
  co_await exchange_in_turn(x, to, from);
}

Cost cost(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = ranks - 1.0,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes),
          .messages = ranks * (ranks - 1.0),
          .bytes_by_all = n * ranks};
}

constexpr Algorithm<AllToAll> kAlgorithm = {
    .name = "pairwise", .cost = cost, .needs = links_to_all, .schedule = all_to_all_pairwise};

constexpr Algorithm<AllToAllVc> kVariant = variant_of<AllToAllVc, kAlgorithm>();

}  // namespace
}  // namespace all_to_all_pairwise

AnyAlgorithm describe(const struct AllToAllPairwise*) { return all_to_all_pairwise::kAlgorithm; }

AnyAlgorithm describe(const struct AllToAllVcPairwise*) { return all_to_all_pairwise::kVariant; }

}  // namespace cohort
