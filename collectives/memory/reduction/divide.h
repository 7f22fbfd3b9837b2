// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace cohort::detail {

inline constexpr std::size_t kMaxDivisor = std::numeric_limits<std::int32_t>::max();

/// Division toward zero of any 64-bit integer by one divisor, as a multiplication, which processors do much
/// faster.
///
/// With l = ceil(log2 n) and m = floor(2^64 (2^l - n) / n) + 1, x / n is (t + (x - t) / 2) / 2^(l-1), where t
/// is floor(x m / 2^64). Source: Granlund and Montgomery, Division by Invariant Integers using
/// Multiplication, 1994, figure 4.1.
class Divisor {
 public:
  /// `n` from 2 to kMaxDivisor.
  explicit constexpr Divisor(std::uint64_t n) noexcept
      : shift_(static_cast<unsigned>(std::bit_width(n - 1)) - 1),
        multiplier_(static_cast<std::uint64_t>((Wide{(std::uint64_t{2} << shift_) - n} << 64) / n) + 1) {}

  [[nodiscard]] constexpr std::uint64_t divide(std::uint64_t value) const noexcept {
    const auto high = static_cast<std::uint64_t>((Wide{value} * multiplier_) >> 64);
    return (high + ((value - high) >> 1)) >> shift_;
  }
  [[nodiscard]] constexpr std::int64_t divide(std::int64_t value) const noexcept {
    const std::uint64_t sign = value < 0 ? ~std::uint64_t{0} : 0;
    const std::uint64_t magnitude = (static_cast<std::uint64_t>(value) ^ sign) - sign;
    return static_cast<std::int64_t>((divide(magnitude) ^ sign) - sign);
  }

 private:
  __extension__ typedef unsigned __int128 Wide;

  unsigned shift_;  // l - 1
  std::uint64_t multiplier_;
};

/// Divides `count` integers of 32 or 64 bits in place, toward zero. Those of 32 by way of double, which
/// compilers turn into vectors: quotients of so few bits are never rounded up to a whole number.
template <class T>
void divide_integers(std::byte* data, std::size_t count, std::size_t by) noexcept {
  if (by == 1) return;
  T* const values = reinterpret_cast<T*>(data);
  if constexpr (sizeof(T) == 4) {
    const auto divisor = static_cast<double>(by);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<T>(static_cast<double>(values[i]) / divisor);
  } else {
    const Divisor divisor(by);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(divisor.divide(values[i]));
  }
}

}  // namespace cohort::detail
