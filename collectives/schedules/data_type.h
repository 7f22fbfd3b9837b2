// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/small_float.h>
#include <cohort/engine/assert.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace cohort {

/// What one element of a buffer is. The numbers travel in signatures.
///
/// A new type is a line in each of three tables: here and below it, at kDataTypeOf where C++ has it, and in
/// reduction/reduce.cpp, beside its kernels. What each does with overflow, NaN and zeros: docs/use/types.md.
enum class DataType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  float8_e4m3,
  float8_e5m2,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  byte,  ///< can be moved, not combined
};

// Behind the enumerators: before them g++ would take those for hiding these.
/// IEEE 754 binary16.
using float16 = SmallFloat<std::uint16_t, 5, 10, true>;
/// The upper half of a float.
using bfloat16 = SmallFloat<std::uint16_t, 8, 7, true>;
/// OCP 8-bit formats. e4m3 has one NaN and no infinity: up to 448, and what is larger stays there.
using float8_e4m3 = SmallFloat<std::uint8_t, 4, 3, false>;
using float8_e5m2 = SmallFloat<std::uint8_t, 5, 2, true>;

/// What its values are, as far as reductions ask.
enum class DataKind : std::uint8_t { floating, signed_integer, unsigned_integer, bytes };

namespace detail {
struct DataTypeInfo {
  DataType type;
  std::string_view name;
  std::size_t size_bytes;
  DataKind kind;
};
/// In the order of the enumerators.
inline constexpr std::array kDataTypeInfos{
    DataTypeInfo{DataType::float32, "float32", 4, DataKind::floating},
    DataTypeInfo{DataType::float64, "float64", 8, DataKind::floating},
    DataTypeInfo{DataType::float16, "float16", 2, DataKind::floating},
    DataTypeInfo{DataType::bfloat16, "bfloat16", 2, DataKind::floating},
    DataTypeInfo{DataType::float8_e4m3, "float8_e4m3", 1, DataKind::floating},
    DataTypeInfo{DataType::float8_e5m2, "float8_e5m2", 1, DataKind::floating},
    DataTypeInfo{DataType::int8, "int8", 1, DataKind::signed_integer},
    DataTypeInfo{DataType::int16, "int16", 2, DataKind::signed_integer},
    DataTypeInfo{DataType::int32, "int32", 4, DataKind::signed_integer},
    DataTypeInfo{DataType::int64, "int64", 8, DataKind::signed_integer},
    DataTypeInfo{DataType::uint8, "uint8", 1, DataKind::unsigned_integer},
    DataTypeInfo{DataType::uint16, "uint16", 2, DataKind::unsigned_integer},
    DataTypeInfo{DataType::uint32, "uint32", 4, DataKind::unsigned_integer},
    DataTypeInfo{DataType::uint64, "uint64", 8, DataKind::unsigned_integer},
    DataTypeInfo{DataType::byte, "byte", 1, DataKind::bytes},
};

/// Asserts that there is such a type.
[[nodiscard]] inline const DataTypeInfo& info_of(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  COHORT_ASSERT(index < kDataTypeInfos.size(), "there is no data type {}", index);
  return kDataTypeInfos[index];
}

consteval auto combined_types() {
  std::array<DataType, kDataTypeInfos.size() - 1> types{};
  for (std::size_t i = 0; i < types.size(); ++i) types[i] = kDataTypeInfos[i].type;
  return types;
}
}  // namespace detail

inline constexpr std::size_t kDataTypeCount = detail::kDataTypeInfos.size();
/// Those that can be combined: all but bytes, which come last.
inline constexpr std::array kDataTypes = detail::combined_types();

/// Bytes of one element: a power of two.
[[nodiscard]] inline std::size_t size_bytes(DataType type) noexcept {
  return detail::info_of(type).size_bytes;
}
[[nodiscard]] inline DataKind kind_of(DataType type) noexcept { return detail::info_of(type).kind; }
[[nodiscard]] inline bool is_integer(DataType type) noexcept {
  return kind_of(type) == DataKind::signed_integer || kind_of(type) == DataKind::unsigned_integer;
}

/// The enumerator's name, such as "float32"; "unknown" for a number that is none, as a damaged signature may
/// hold.
[[nodiscard]] std::string_view to_string(DataType type) noexcept;

/// The type of exactly that name, of those that can be combined.
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view name) noexcept;

namespace detail {
template <class T, class... Others>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Others> || ...);

/// Of an integer by its size, so that `long` and `long long` both have one; characters and bool have none.
template <class T>
consteval std::optional<DataType> integer_type() {
  if (!std::is_integral_v<T> || kIsOneOf<T, bool, char, wchar_t, char8_t, char16_t, char32_t>) return {};
  for (const DataTypeInfo& info : kDataTypeInfos) {
    const bool has_kind =
        info.kind == (std::is_signed_v<T> ? DataKind::signed_integer : DataKind::unsigned_integer);
    if (has_kind && info.size_bytes == sizeof(T)) return info.type;
  }
  return {};
}

template <class T>
inline constexpr std::optional<DataType> kDataTypeOf{integer_type<T>()};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<float>{DataType::float32};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<double>{DataType::float64};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<float16>{DataType::float16};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<bfloat16>{DataType::bfloat16};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<float8_e4m3>{DataType::float8_e4m3};
template <>
inline constexpr std::optional<DataType> kDataTypeOf<float8_e5m2>{DataType::float8_e5m2};
}  // namespace detail

/// A C++ type whose arrays a collective takes as they are.
template <class T>
concept Element = detail::kDataTypeOf<T>
.has_value();

template <Element T>
[[nodiscard]] constexpr DataType data_type_of() noexcept {
  return *detail::kDataTypeOf<T>;
}

/// function(T{}) with the C++ type of one that can be combined; asserts that it can.
template <class Function>
decltype(auto) visit_element(DataType type, Function&& function) {
  switch (type) {
    case DataType::float32: return function(float{});
    case DataType::float64: return function(double{});
    case DataType::float16: return function(float16{});
    case DataType::bfloat16: return function(bfloat16{});
    case DataType::float8_e4m3: return function(float8_e4m3{});
    case DataType::float8_e5m2: return function(float8_e5m2{});
    case DataType::int8: return function(std::int8_t{});
    case DataType::int16: return function(std::int16_t{});
    case DataType::int32: return function(std::int32_t{});
    case DataType::int64: return function(std::int64_t{});
    case DataType::uint8: return function(std::uint8_t{});
    case DataType::uint16: return function(std::uint16_t{});
    case DataType::uint32: return function(std::uint32_t{});
    case DataType::uint64: return function(std::uint64_t{});
    case DataType::byte: break;
  }
  COHORT_ASSERT(false, "{} has no values that could be combined", to_string(type));
  return function(float{});
}

}  // namespace cohort
