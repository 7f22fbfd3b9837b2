// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/reduction/reduce.h>

#include <cstddef>
#include <cstdint>

// What reduce() is made of. Compiled once for each instruction set, by Highway, in reduce_TYPE.cpp and
// copy.cpp.
namespace cohort::detail {

/// One pass: up to kMaxFanIn inputs, of floats that are rounded any number, combined in registers, to every
/// output. A single input is legal. Streaming goes to outputs that are aligned alike and is not fenced.
/// `average_over` divides floats and is ignored for integers.
using Kernel = void(const Reduction&) noexcept;
inline constexpr std::size_t kMaxFanIn = 8;

Kernel reduce_float32;
Kernel reduce_float64;
Kernel reduce_float16;
Kernel reduce_bfloat16;
Kernel reduce_float8_e4m3;
Kernel reduce_float8_e5m2;
// Of integers both with a sign and without; all reductions but those of bits.
Kernel reduce_int8;
Kernel reduce_int16;
Kernel reduce_int32;
Kernel reduce_int64;
/// And, or, xor of the bits of any integers.
Kernel reduce_bits;

/// Divides in place, toward zero.
using Divide = void(std::byte* data, std::size_t count, std::size_t by) noexcept;
Divide divide_int8;
Divide divide_uint8;
Divide divide_int16;
Divide divide_uint16;

/// copy() by streaming stores, without the fence.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Makes the streaming stores before it visible before any store after it.
void streaming_fence() noexcept;

/// A cache line, and the alignment that streaming stores of any instruction set ask for.
inline constexpr std::uintptr_t kStreamAlignment = 64;

[[nodiscard]] inline std::size_t bytes_to_alignment(const void* address) noexcept {
  return (kStreamAlignment - reinterpret_cast<std::uintptr_t>(address) % kStreamAlignment) % kStreamAlignment;
}

}  // namespace cohort::detail
