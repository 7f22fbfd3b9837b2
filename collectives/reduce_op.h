// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

/// How the ranks' elements become one. The numbers travel in signatures: a new one goes at the end.
/// What each does with overflow, NaN and signed zeros: reduction/reduce.h.
enum class ReduceOp : std::uint8_t {
  sum,
  avg,  ///< the sum, divided by the number of ranks as the last step
  max,
  min,
  prod,
};

inline constexpr std::array kReduceOps{ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min,
                                       ReduceOp::prod};

/// The enumerator's name, such as "sum"; "unknown" for a number that is none, as a damaged signature may
/// hold.
[[nodiscard]] std::string_view to_string(ReduceOp op) noexcept;

/// The operation of exactly that name.
[[nodiscard]] std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept;

}  // namespace cohort
