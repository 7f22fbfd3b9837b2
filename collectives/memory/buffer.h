// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

/// Turns what a caller gives to a collective, a vector, array, span or SharedBuffer, into bytes and their
/// type. What cannot be one is a single error of the compiler that says what can. R is the type that a
/// forwarding reference deduced.
namespace cohort::detail {

/// What goes into a collective, and what comes out of it.
struct Input {
  DataType type{};
  std::span<const std::byte> bytes{};
};
struct Output {
  DataType type{};
  std::span<std::byte> bytes{};
};

template <class R>
concept Contiguous = std::ranges::contiguous_range<R> && std::ranges::sized_range<R>;

template <class R>
consteval bool stays() {
  constexpr bool result =
      std::is_lvalue_reference_v<R> || std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>;
  static_assert(result, "this buffer would end before the collective does: give it a name first");
  return result;
}

template <class R>
consteval bool is_memory() {
  static_assert(Contiguous<R>,
                "a collective takes contiguous memory: a vector, array, span or SharedBuffer; all_reduce, "
                "broadcast, scan and exclusive_scan also take one value of an element's type");
  if constexpr (Contiguous<R>)
    return stays<R>();
  else
    return false;
}

/// What a range holds, const where it may only be read. Of others: what they are.
template <class R>
struct HeldBy {
  using Type = std::remove_reference_t<R>;
};
template <class R>
requires Contiguous<R>
struct HeldBy<R> {
  using Type = std::remove_reference_t<std::ranges::range_reference_t<R>>;
};
template <class R>
using Held = typename HeldBy<R>::Type;

template <class R>
consteval bool holds_elements() {
  if constexpr (is_memory<R>()) {
    constexpr bool result = Element<std::remove_const_t<Held<R>>>;
    static_assert(
        result,
        "the elements of a collective are std::int8_t to std::int64_t, std::uint8_t to std::uint64_t, "
        "float, double, cohort::float16, bfloat16, float8_e4m3 or float8_e5m2; broadcast_bytes() "
        "and all_gather_bytes() move those of other trivially copyable types");
    return result;
  } else {
    return false;
  }
}

template <class R>
consteval bool holds_bytes() {
  if constexpr (stays<R>()) {
    using T = std::remove_const_t<Held<R>>;
    constexpr bool result = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;
    static_assert(result,
                  "only trivially copyable values move as bytes, and no pointers: they mean nothing to "
                  "another rank");
    return result;
  } else {
    return false;
  }
}

template <class R>
consteval bool is_writable() {
  constexpr bool result = !std::is_const_v<Held<R>>;
  static_assert(result, "a collective writes to this buffer: it must not be const");
  return result;
}

/// Saturated: a count that fell below zero is to be refused, not to come out small.
template <class T>
constexpr std::size_t bytes_of(std::size_t count) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  return count > kMost / sizeof(T) ? kMost : count * sizeof(T);
}

template <class R>
Input input_of(R& range) {
  if constexpr (holds_elements<R>()) {
    using T = std::remove_const_t<Held<R>>;
    const auto* bytes = reinterpret_cast<const std::byte*>(std::ranges::data(range));
    return {data_type_of<T>(), {bytes, bytes_of<T>(std::ranges::size(range))}};
  } else {
    return {};
  }
}

template <class R>
Output output_of(R& range) {
  if constexpr (holds_elements<R>()) {
    if constexpr (is_writable<R>()) {
      using T = Held<R>;
      auto* bytes = reinterpret_cast<std::byte*>(std::ranges::data(range));
      return {data_type_of<T>(), {bytes, bytes_of<T>(std::ranges::size(range))}};
    }
  }
  return {};
}

/// Of a range its elements, of anything else the value itself.
template <class R>
Input input_bytes_of(R& values) {
  if constexpr (!holds_bytes<R>())
    return {};
  else if constexpr (Contiguous<R>)
    return {DataType::byte,
            {reinterpret_cast<const std::byte*>(std::ranges::data(values)),
             bytes_of<Held<R>>(std::ranges::size(values))}};
  else
    return {DataType::byte, {reinterpret_cast<const std::byte*>(std::addressof(values)), sizeof(values)}};
}

template <class R>
Output output_bytes_of(R& values) {
  if constexpr (holds_bytes<R>()) {
    if constexpr (is_writable<R>()) {
      const Input same = input_bytes_of<R>(values);
      return {same.type, {const_cast<std::byte*>(same.bytes.data()), same.bytes.size()}};
    }
  }
  return {};
}

/// How many elements each block has.
template <class R>
std::span<const std::size_t> counts_of(R& counts) {
  if constexpr (is_memory<R>()) {
    constexpr bool is_list = std::is_same_v<std::remove_const_t<Held<R>>, std::size_t>;
    static_assert(is_list, "counts are a vector, array or span of std::size_t");
    if constexpr (is_list) return {std::ranges::data(counts), std::ranges::size(counts)};
  }
  return {};
}

/// Of elements only, so that one mistake is one error.
template <class In, class Out>
consteval void check_pair() {
  using From = std::remove_const_t<Held<In>>;
  using To = std::remove_const_t<Held<Out>>;
  static_assert(!Element<From> || !Element<To> || std::is_same_v<From, To>,
                "input and output of a collective have elements of one type");
}

}  // namespace cohort::detail
