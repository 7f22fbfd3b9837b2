// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/data_type.h>

namespace cohort {

namespace {

/// In the order of the enumerators.
constexpr std::array<std::string_view, kDataTypeCount> kNames{"float32", "float64", "int32", "int64", "byte"};

}  // namespace

std::string_view to_string(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (const DataType type : kDataTypes) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace cohort
