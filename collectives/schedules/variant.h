// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>

namespace cohort {

/// An algorithm for a variant of its operator: one that is derived from it, and whose slices only say more.
/// `cost` in place of the algorithm's own, where the variant costs another.
template <class Variant, const auto& kOf>
consteval Algorithm<Variant> variant_of(ForRanks<Cost> cost = kOf.cost) {
  Algorithm<Variant> result;
  result.name = kOf.name;
  result.scope = kOf.scope;
  result.levels = kOf.levels;
  result.order = kOf.order;
  result.cost = cost;
  result.needs = kOf.needs;
  result.largest_piece = kOf.largest_piece;
  if constexpr (kOf.schedule != nullptr)
    result.schedule = [](Exec& x, Variant op) -> Task<> { return kOf.schedule(x, op); };
  result.local.announces = kOf.local.announces;
  if constexpr (kOf.local.combine != nullptr)
    result.local.combine = [](Exec& x, const Variant& op) { kOf.local.combine(x, op); };
  if constexpr (kOf.local.finish != nullptr)
    result.local.finish = [](Exec& x, const Variant& op) { kOf.local.finish(x, op); };
  result.local.may_refer = kOf.local.may_refer;
  return result;
}

}  // namespace cohort
