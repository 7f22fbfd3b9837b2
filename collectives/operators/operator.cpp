// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/operators/operator.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

template <class Op>
constexpr OperatorInfo describe() {
  return {.name = Op::kName,
          .has_data = Op::kHasData,
          .has_root = Op::kHasRoot,
          .combines = Op::kCombines,
          .has_one_buffer = Op::kHasOneBuffer,
          .extent = Op::extent,
          .in_place = Op::in_place,
          .result = Op::result,
          .bus_factor = Op::bus_factor,
          .least_traffic = Op::least_traffic};
}

template <class... Op>
constexpr std::array<OperatorInfo, sizeof...(Op)> describe_all(OperatorList<Op...>) {
  return {describe<Op>()...};
}
template <class... Op>
constexpr std::array<Operator, sizeof...(Op)> list_all(OperatorList<Op...>) {
  return {operator_of<Op>...};
}

constexpr auto kInfos = describe_all(Operators{});
constexpr auto kAll = list_all(Operators{});

}  // namespace

Operator Operator::at(std::size_t index) noexcept {
  COHORT_ASSERT(index < kOperators, "operator {} of {}", index, kOperators);
  return kAll[index];
}

const OperatorInfo& Operator::info() const noexcept { return kInfos[index_]; }

std::size_t Operator::elements_per_count(Rank ranks) const noexcept {
  const Extent extent = info().extent(ranks, 0, 0);
  return std::max(extent.send, extent.recv);
}

std::size_t Operator::given_per_count(Rank ranks) const noexcept { return info().extent(ranks, 0, 0).send; }

std::span<const Operator> all_operators() noexcept { return kAll; }

std::string_view to_string(Operator op) noexcept { return op->name; }

std::optional<Operator> parse_operator(std::string_view text) noexcept {
  const auto found = std::find_if(kAll.begin(), kAll.end(), [&](Operator op) { return op->name == text; });
  if (found == kAll.end()) return std::nullopt;
  return *found;
}

}  // namespace cohort
