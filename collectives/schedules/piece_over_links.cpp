// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/piece_over_links.h>

#include <cohort/engine/tuning.h>

#include <algorithm>
#include <bit>

namespace cohort {
namespace {

std::size_t blocks_in_cache(Operator op, Rank ranks) {
  if (!op->has_root) return op.elements_per_count(ranks);
  return op->flow == Flow::from_root ? 2 : 1;
}

}  // namespace

std::size_t piece_over_links(const AnyAlgorithm& algorithm, std::size_t largest, std::size_t message_bytes,
                             const Hosts& hosts, std::size_t cache_bytes) {
  constexpr double kMostCaches = 1 << 20;  // what a user's own cost() may say
  if (message_bytes <= tuning::links::kWhole || !algorithm.op()->has_data || hosts.ranks() == 1)
    return largest;
  const std::size_t piece = std::min(largest, cache_bytes / blocks_in_cache(algorithm.op(), hosts.ranks()));
  if (!algorithm.has_cost()) return piece;
  const Cost cost = algorithm.cost(piece, hosts);
  const double in_round = (cost.bytes_by_all - cost.bytes_by_all_inside) / std::max(cost.rounds, 1.0);
  const double caches =
      std::min(in_round / (static_cast<double>(cache_bytes) * (hosts.ranks() - 1.0)), kMostCaches);
  constexpr double kRounding = 1e-6;
  if (!(caches > 1 + kRounding)) return piece;
  // A power of two, so that all ranks come to the same; and where a message costs no more than its bytes.
  return std::max(std::min(piece, tuning::links::kLeastPiece),
                  piece / std::bit_ceil(static_cast<std::size_t>(caches + 1 - kRounding)));
}

}  // namespace cohort
