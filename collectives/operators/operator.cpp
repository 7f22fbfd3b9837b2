// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/operators/operator.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

template <class... Op>
constexpr std::array<Operator, sizeof...(Op)> list_all(OperatorList<Op...>) {
  return {operator_of<Op>...};
}

constexpr auto kAll = list_all(Operators{});

}  // namespace

Operator Operator::at(std::size_t index) noexcept {
  COHORT_ASSERT(index < kOperators, "operator {} of {}", index, kOperators);
  return kAll[index];
}

std::size_t Operator::elements_per_count(Rank ranks) const noexcept {
  const Extent extent = info().extent({.count = 1, .ranks = ranks}, 0);
  return std::max(extent.send, extent.recv);
}

std::span<const Operator> all_operators() noexcept { return kAll; }

std::string_view to_string(Operator op) noexcept { return op->name; }

std::optional<Operator> parse_operator(std::string_view text) noexcept {
  const auto found = std::find_if(kAll.begin(), kAll.end(), [&](Operator op) { return op->name == text; });
  if (found == kAll.end()) return std::nullopt;
  return *found;
}

}  // namespace cohort
