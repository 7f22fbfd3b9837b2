// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/data_type.h>

namespace cohort {

static_assert(
    [] {
      for (std::size_t i = 0; i < kDataTypeCount; ++i)
        if (detail::kDataTypeInfos[i].type != static_cast<DataType>(i)) return false;
      return detail::kDataTypeInfos.back().type == DataType::byte;
    }(),
    "the table stands in the order of the enumerators, bytes last");

std::string_view to_string(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kDataTypeCount ? detail::kDataTypeInfos[index].name : "unknown";
}

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (const DataType type : kDataTypes) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace cohort
