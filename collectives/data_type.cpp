// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/data_type.h>

#include <cohort/engine/assert.h>

namespace cohort {

namespace {

struct Description {
  std::string_view name;
  std::size_t size_bytes;
};

/// In the order of the enumerators.
constexpr std::array<Description, kDataTypes.size()> kDescriptions{{
    {"float32", 4},
    {"float64", 8},
    {"int32", 4},
    {"int64", 8},
}};

}  // namespace

std::size_t size_bytes(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  COHORT_ASSERT(index < kDescriptions.size(), "there is no data type {}", index);
  return kDescriptions[index].size_bytes;
}

std::string_view to_string(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kDescriptions.size() ? kDescriptions[index].name : "unknown";
}

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (const DataType type : kDataTypes) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace cohort
