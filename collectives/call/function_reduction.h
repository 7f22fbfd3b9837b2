// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/memory/buffer.h>

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <typeinfo>

namespace cohort {

/// A reduction by a function of the program's, without its types.
struct ElementFunction {
  /// left[i] = function(left[i], right[i]); both are arrays of the type. `self` is this: of what is derived
  /// from it, where a function has state.
  void (*combine)(const ElementFunction& self, std::byte* left, const std::byte* right,
                  std::size_t count) = nullptr;
  std::size_t element_bytes = 0;
  std::string_view (*type_name)() = nullptr;  ///< of the element, as the compiler spells it
};

/// Elements may be so large, and aligned as any memory of the heap is.
inline constexpr std::size_t kMostElementBytes = 4096;

/// How elements of a type of the program's become one. Made by reduction().
template <class T>
struct FunctionReduction {
  const ElementFunction* function = nullptr;
};

namespace detail {

template <class T, class F>
inline constexpr ElementFunction kElementFunction{
    .combine =
        [](const ElementFunction&, std::byte* left, const std::byte* right, std::size_t count) {
          const F function{};
          T* const to = reinterpret_cast<T*>(left);
          const T* const from = reinterpret_cast<const T*>(right);
          for (std::size_t i = 0; i < count; ++i) to[i] = function(to[i], from[i]);
        },
    .element_bytes = sizeof(T),
    .type_name = []() -> std::string_view { return typeid(T).name(); }};

/// The bytes of a buffer of such elements.
template <class T, class R>
std::span<const std::byte> own_input_of(R& range) {
  if constexpr (is_memory<R>()) {
    constexpr bool is_of_type = std::is_same_v<std::remove_const_t<Held<R>>, T>;
    static_assert(is_of_type, "the buffers have elements of another type than the reduction's function");
    if constexpr (is_of_type)
      return {reinterpret_cast<const std::byte*>(std::ranges::data(range)),
              bytes_of<T>(std::ranges::size(range))};
  }
  return {};
}

template <class T, class R>
std::span<std::byte> own_output_of(R& range) {
  if constexpr (is_writable<R>()) {
    const std::span<const std::byte> bytes = own_input_of<T, R>(range);
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  return {};
}

/// Sizes, places and roots are checked as of bytes that are combined bit by bit.
template <class T, class In, class Out>
CallArguments own_arguments(In& in, Out& out, Rank root = 0) {
  CallArguments arguments{.type = DataType::uint8};
  arguments.reduce = ReduceOp::bit_or;
  arguments.root = root;
  arguments.in = own_input_of<T, In>(in);
  arguments.out = own_output_of<T, Out>(out);
  return arguments;
}

}  // namespace detail

/// A reduction by `function(left, right)`, which returns what the two become: a lambda without captures, or
/// another function object without state. Where a ReduceOp is taken: all_reduce, reduce, reduce_scatter,
/// scan, exclusive_scan.
///
/// Elements are of any trivially copyable type of up to kMostElementBytes. The function has to be
/// associative; it need not be commutative, since the ranks' elements are combined in rank order, from left
/// to right, whatever the size and the transport.
///
/// The ranks compare size and name of the type; that all give the same function cannot be seen. What it
/// throws ends the communicator, on every rank, as an Error of kind Internal with its text that names the
/// rank. It runs on the engine's thread.
template <class T, class F>
[[nodiscard]] FunctionReduction<T> reduction(F) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_copy_assignable_v<T> && !std::is_pointer_v<T>,
                "elements that a function combines are of a trivially copyable type");
  static_assert(sizeof(T) <= kMostElementBytes && alignof(T) <= alignof(std::max_align_t),
                "elements that a function combines have at most 4096 bytes and no alignment of their own");
  constexpr bool is_stateless = std::is_empty_v<F> && std::is_default_constructible_v<F>;
  static_assert(is_stateless, "the function of a reduction has no state: give a lambda without captures");
  constexpr bool combines = std::is_invocable_r_v<T, const F&, const T&, const T&>;
  static_assert(combines, "the function of a reduction takes two elements and returns one");
  if constexpr (is_stateless && combines)
    return {&detail::kElementFunction<T, F>};
  else
    return {nullptr};
}

/// The call as it was asked for.
struct FunctionCall {
  Operator op;
  CallArguments arguments;  ///< in bytes
  const ElementFunction* function = nullptr;
  Duration timeout{0};  ///< zero: the communicator's
};

}  // namespace cohort
