// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/operators/operators.h>

#include <array>

namespace cohort {
namespace {

constexpr std::array<std::string_view, kOperators> kNames = {"barrier", "broadcast", "all_reduce",
                                                             "all_gather", "reduce_scatter"};

}  // namespace

std::string_view to_string(Operator op) noexcept { return kNames[static_cast<std::size_t>(op)]; }

std::optional<Operator> parse_operator(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<Operator>(i);
  return std::nullopt;
}

}  // namespace cohort
