// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/determinism.h>

namespace cohort {

std::string_view to_string(Determinism level) noexcept {
  switch (level) {
    case Determinism::D0: return "D0";
    case Determinism::D1: return "D1";
    case Determinism::D2: return "D2";
    case Determinism::D3: return "D3";
  }
  return "unknown";
}

std::optional<Determinism> parse_determinism(std::string_view name) noexcept {
  const bool is_one =
      name.size() == 2 && (name[0] == 'D' || name[0] == 'd') && name[1] >= '0' && name[1] <= '3';
  if (!is_one) return std::nullopt;
  return static_cast<Determinism>(name[1] - '0');
}

std::string_view to_string(ReductionOrder order) noexcept {
  switch (order) {
    case ReductionOrder::fixed: return "in an order of its own";
    case ReductionOrder::by_rank: return "by rank, step by step";
    case ReductionOrder::by_rank_at_once: return "by rank, in one step";
  }
  return "unknown";
}

}  // namespace cohort
