// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// How the ranks' elements become one. The numbers travel in signatures: a new one goes at the end.
/// What each does with overflow, NaN and signed zeros: docs/use/types.md.
enum class ReduceOp : std::uint8_t {
  sum,
  avg,  ///< the sum, divided by the number of ranks as the last step
  max,
  min,
  prod,
  scaled_sum,  ///< the sum of the elements, each multiplied by a factor first
  // Of integers only:
  bit_and,
  bit_or,
  bit_xor,
  logical_and,  ///< 1 where all are not 0, else 0
  logical_or,   ///< 1 where any is not 0, else 0
  logical_xor,  ///< 1 where an odd number of them is not 0, else 0
};

inline constexpr std::array kReduceOps{ReduceOp::sum,         ReduceOp::avg,        ReduceOp::max,
                                       ReduceOp::min,         ReduceOp::prod,       ReduceOp::scaled_sum,
                                       ReduceOp::bit_and,     ReduceOp::bit_or,     ReduceOp::bit_xor,
                                       ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor};

/// The enumerator's name, such as "sum"; "unknown" for a number that is none, as a damaged signature may
/// hold.
[[nodiscard]] std::string_view to_string(ReduceOp op) noexcept;

/// The operation of exactly that name.
[[nodiscard]] std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept;

[[nodiscard]] constexpr bool is_logical(ReduceOp op) noexcept { return op >= ReduceOp::logical_and; }
/// Of bits, or of elements as truth values.
[[nodiscard]] constexpr bool is_for_integers(ReduceOp op) noexcept { return op >= ReduceOp::bit_and; }

/// Whether elements of the type can be combined so.
[[nodiscard]] inline bool applies(ReduceOp op, DataType type) noexcept {
  return op <= ReduceOp::logical_xor && type != DataType::byte && (!is_for_integers(op) || is_integer(type));
}
/// The names of those types, as "int8, int16 or uint8": for errors.
[[nodiscard]] std::string types_of(ReduceOp op);

/// A reduction as a call asks for it: a ReduceOp, or one that has more to it.
struct Combination {
  constexpr Combination(ReduceOp of) noexcept : op(of) {}  // NOLINT(google-explicit-constructor)

  ReduceOp op;
  double factor = 1;  ///< of scaled_sum
};

/// The sum of factor * element. The factor is the same on all ranks, and becomes an element itself first:
/// rounded for floats, a whole number for integers.
[[nodiscard]] constexpr Combination scaled_sum(double factor) noexcept {
  Combination combination = ReduceOp::scaled_sum;
  combination.factor = factor;
  return combination;
}

}  // namespace cohort
