// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

/// What one element of a buffer is. The numbers travel in signatures: a new type goes at the end.
///
/// A new type is one line in each table: here, below at kDataTypeOf where C++ has it, in data_type.cpp and in
/// reduction/reduce.cpp, beside its kernels. Bytes can be moved, not combined.
enum class DataType : std::uint8_t { float32, float64, int32, int64, byte };

/// Those that can be combined.
inline constexpr std::array kDataTypes{DataType::float32, DataType::float64, DataType::int32,
                                       DataType::int64};
inline constexpr std::size_t kDataTypeCount = kDataTypes.size() + 1;

namespace detail {
/// In the order of the enumerators.
inline constexpr std::array<std::size_t, kDataTypeCount> kElementBytes{4, 8, 4, 8, 1};
}  // namespace detail

/// Bytes of one element: a power of two.
[[nodiscard]] inline std::size_t size_bytes(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  COHORT_ASSERT(index < detail::kElementBytes.size(), "there is no data type {}", index);
  return detail::kElementBytes[index];
}

/// The enumerator's name, such as "float32"; "unknown" for a number that is none, as a damaged signature may
/// hold.
[[nodiscard]] std::string_view to_string(DataType type) noexcept;

/// The type of exactly that name, of those that can be combined.
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view name) noexcept;

namespace detail {
template <class T>
inline constexpr std::optional<DataType> kDataTypeOf{};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<float>{DataType::float32};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<double>{DataType::float64};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<std::int32_t>{DataType::int32};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<std::int64_t>{DataType::int64};
}  // namespace detail

/// A C++ type whose arrays a collective takes as they are.
template <class T>
concept Element = detail::kDataTypeOf<T>
.has_value();

template <Element T>
[[nodiscard]] constexpr DataType data_type_of() noexcept {
  return *detail::kDataTypeOf<T>;
}

}  // namespace cohort
