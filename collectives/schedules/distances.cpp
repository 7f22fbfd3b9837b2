// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/distances.h>

#include <span>

namespace cohort {
namespace {

/// Each distance, of 1, 2, 4, ..., weighs so many times what the one before weighs.
constexpr double kEven = 1;
constexpr double kNear = 0.5;
constexpr double kFar = 2;

/// The mean over distances of a part of the ranks.
template <class Part>
double mean(std::span<const Rank> inside, double growth, Part part) noexcept {
  double sum = 0;
  double all = 0;
  double weight = 1;
  for (const Rank ranks : inside) {
    sum += weight * part(ranks);
    all += weight;
    weight *= growth;
  }
  return all == 0 ? 1 : sum / all;
}

/// Parts of a cost that stay inside.
struct Inside {
  double messages = 0;
  double bytes = 0;
  double rounds = 0;
  double moved = 0;
};

Inside parts_inside(Distances distances, const Hosts& hosts) noexcept {
  const double ranks = hosts.ranks();
  const auto part = [&](Rank inside) { return inside / ranks; };
  const auto is_all = [&](Rank inside) { return inside == hosts.ranks() ? 1.0 : 0.0; };
  const auto ahead = [&](double growth) { return mean(hosts.inside_at_powers(), growth, part); };
  const auto swaps = [&](double growth) {
    const std::span<const Rank> at = hosts.inside_at_swaps();
    return Inside{.messages = mean(at, kEven, part),
                  .bytes = mean(at, growth, part),
                  .rounds = mean(at, kEven, is_all),
                  .moved = mean(at, growth, is_all)};
  };
  const double pairs = hosts.pairs_inside() / (ranks * (ranks - 1));
  const double neighbours = part(hosts.inside_at_powers().front());
  switch (distances) {
    case Distances::pairs: return {.messages = pairs, .bytes = pairs};
    case Distances::neighbours: return {.messages = neighbours, .bytes = neighbours};
    case Distances::powers: return {.messages = ahead(kEven), .bytes = ahead(kEven)};
    case Distances::powers_near: return {.messages = ahead(kEven), .bytes = ahead(kNear)};
    case Distances::powers_far: return {.messages = ahead(kEven), .bytes = ahead(kFar)};
    case Distances::tree: return {.messages = ahead(kNear), .bytes = ahead(kNear)};
    case Distances::swaps: return swaps(kEven);
    case Distances::swaps_far: return swaps(kFar);
  }
  return {};
}

}  // namespace

Cost on_hosts(Cost cost, Distances distances, const Hosts& hosts) noexcept {
  if (hosts.count() == 1) return cost.inside();
  if (hosts.count() == hosts.ranks()) return cost;
  const Inside inside = parts_inside(distances, hosts);
  cost.rounds_inside = inside.rounds * cost.rounds;
  cost.bytes_moved_inside = inside.moved * cost.bytes_moved;
  cost.messages_inside = inside.messages * cost.messages;
  cost.bytes_by_all_inside = inside.bytes * cost.bytes_by_all;
  cost.messages_of_one *= 1 - inside.messages;
  cost.messages_to_one *= 1 - inside.messages;
  cost.bytes_of_one *= 1 - inside.bytes;
  return cost;
}

}  // namespace cohort
