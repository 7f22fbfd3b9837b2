// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/reduce_op.h>

#include <cstddef>
#include <span>
#include <string>

namespace cohort {

/// outputs[j][i] = inputs[0][i] op inputs[1][i] op ..., for every j and i.
///
/// Strictly from left to right for each element, with the same instructions' results in vectors, tails and on
/// every instruction set: the bits depend on the order of the inputs alone, never on count, slicing,
/// alignment or machine (levels D2 and D3, as far as the caller keeps the order).
///
/// The meaning per element:
/// - sum, prod: floats by IEEE 754 in the thread's rounding mode, no fused or reassociated steps; integers
///   wrap modulo 2^n.
/// - max, min: IEEE 754-2019 maximum and minimum: a NaN wins, +0 is above -0. So these do not depend on the
///   order either.
/// - scaled_sum: the sum; scale() comes before.
/// - avg: the sum, and when `average_over` is given divided by it at the end: floats by true division,
///   integers toward zero after the wrapped sum.
/// - Floats of 8 and 16 bits are combined as float32, however many inputs there are, and the result is
///   rounded once (SmallFloat says how).
/// - A float result that is NaN is always the positive quiet NaN without payload. x86 would hand on either
///   operand's.
/// - logical_and, logical_or, logical_xor: 1 or 0; bit_and, bit_or, bit_xor: bit for bit. Integers only.
/// - One input that is not averaged is copied bit for bit.
///
/// Buffers are aligned to their element and no further. An output is the same memory as an input or disjoint
/// from all inputs, and outputs are disjoint from each other. At least one input and one output; count may be
/// 0.
struct Reduction {
  DataType type;
  ReduceOp op;
  std::size_t count;  ///< elements in each buffer
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::size_t average_over =
      0;  ///< avg: the number of ranks, below 2^31; 0 while the result is partial. Else 0
  Stores stores = Stores::cached;
};

/// Carries it out on the calling thread: one pass over every input and output. Up to eight inputs are
/// combined in registers, more through a tile on the stack that stays in the first-level cache. No heap, no
/// locks.
void reduce(const Reduction& reduction) noexcept;

/// inout = inout op in. For avg a partial sum: finish_average() ends it.
void reduce_into(DataType type, ReduceOp op, std::byte* inout, const std::byte* in,
                 std::size_t count) noexcept;

/// Divides a finished sum in place, exactly as reduce() would have with `average_over` = ranks.
void finish_average(DataType type, std::byte* data, std::size_t count, std::size_t ranks) noexcept;

/// The instruction set in use, chosen at run time: "avx3", "avx2", "sse4", "neon", "scalar", ...
[[nodiscard]] std::string reduction_target();

}  // namespace cohort
