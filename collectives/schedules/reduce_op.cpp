// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/reduce_op.h>

#include <fmt/format.h>

#include <cstddef>

namespace cohort {

namespace {

/// In the order of the enumerators.
constexpr std::array<std::string_view, kReduceOps.size()> kNames{
    "sum",     "avg",    "max",     "min",         "prod",       "scaled_sum",
    "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};

}  // namespace

std::string_view to_string(ReduceOp op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept {
  for (const ReduceOp op : kReduceOps) {
    if (to_string(op) == name) return op;
  }
  return std::nullopt;
}

std::string types_of(ReduceOp op) {
  std::string text;
  for (const DataType type : kDataTypes) {
    if (!applies(op, type)) continue;
    const bool is_last = type == kDataTypes.back();
    text += fmt::format("{}{}", text.empty() ? "" : is_last ? " or " : ", ", to_string(type));
  }
  return text;
}

}  // namespace cohort
