// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/reduce_op.h>
#include <cohort/net/rank.h>

#include <cstddef>

/// Reductions by definition, one element at a time and on plain numbers: what verification, soaking and tests
/// compare with. Whole numbers below 2^53 are exact; those of 64 bits must not be negative without a sign.
namespace cohort::reference {

/// What becomes of a number in an element of that type: integers wrap, floats are rounded.
[[nodiscard]] double as_element(DataType type, double value) noexcept;
void store(DataType type, std::byte* at, double value) noexcept;
[[nodiscard]] double load(DataType type, const std::byte* at) noexcept;

/// left op right; for avg their sum, for scaled_sum that of what is scaled already.
[[nodiscard]] double combine(DataType type, ReduceOp op, double left, double right) noexcept;
/// The finished combination of that many ranks.
[[nodiscard]] double finish(DataType type, ReduceOp op, double combined, Rank ranks) noexcept;

/// The largest number so that sums of that many, of either sign and in any order, are exact; 0 if not even
/// ones are.
[[nodiscard]] int largest_summand(DataType type, std::size_t summands) noexcept;

}  // namespace cohort::reference
