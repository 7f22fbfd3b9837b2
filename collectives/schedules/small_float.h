// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace cohort {

/// A floating-point number of 8 or 16 bits, for storage: converts to and from float, and has no arithmetic of
/// its own.
///
/// A value, as large and as aligned as `Bits`; arrays of it are what other libraries call by the same name.
/// From float it is rounded to nearest, ties to even; a NaN becomes the positive quiet one. What is too large
/// becomes an infinity, or, without one, the largest finite value. To float it is exact.
template <class Bits, unsigned kExponentBits, unsigned kMantissaBits, bool kHasInfinity>
class SmallFloat {
 public:
  using Storage = Bits;
  static constexpr unsigned kMantissa = kMantissaBits;
  static constexpr unsigned kExponent = kExponentBits;
  static constexpr bool kIsIeee = kHasInfinity;  ///< all ones in the exponent are no number
  static constexpr unsigned kBias = (1U << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kSign = 1U << (kExponentBits + kMantissaBits);
  static constexpr std::uint32_t kAllOnes = kSign - 1;
  static constexpr std::uint32_t kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint32_t kNan = kHasInfinity ? kInfinity | 1U << (kMantissaBits - 1) : kAllOnes;
  static constexpr std::uint32_t kLargest = kHasInfinity ? kInfinity - 1 : kAllOnes - 1;

  constexpr SmallFloat() = default;
  constexpr explicit SmallFloat(float value) noexcept : bits_(static_cast<Bits>(rounded(value))) {}
  [[nodiscard]] static constexpr SmallFloat from_bits(Bits bits) noexcept {
    SmallFloat value;
    value.bits_ = bits;
    return value;
  }

  constexpr operator float() const noexcept {  // NOLINT(google-explicit-constructor)
    const std::uint32_t sign = (bits_ & kSign) << (31 - kExponentBits - kMantissaBits);
    const std::uint32_t magnitude = bits_ & kAllOnes;
    const bool is_nan = kHasInfinity ? magnitude > kInfinity : magnitude == kAllOnes;
    if (is_nan) return std::bit_cast<float>(sign | kFloatNan);
    if (kHasInfinity && magnitude == kInfinity) return std::bit_cast<float>(sign | kFloatInfinity);
    const bool is_subnormal = kExponentBits < 8 && magnitude >> kMantissaBits == 0;
    if (!is_subnormal)
      return std::bit_cast<float>(sign | ((magnitude << kDropped) + (kRebias << kFloatMantissa)));
    const float unit = std::bit_cast<float>((128 - kBias - kMantissaBits) << kFloatMantissa);
    const float value = static_cast<float>(magnitude) * unit;
    return sign == 0 ? value : -value;
  }

  [[nodiscard]] constexpr Bits bits() const noexcept { return bits_; }

 private:
  static constexpr unsigned kFloatMantissa = 23;
  static constexpr std::uint32_t kFloatInfinity = 0x7f800000;
  static constexpr std::uint32_t kFloatNan = 0x7fc00000;
  static constexpr unsigned kDropped = kFloatMantissa - kMantissaBits;
  static constexpr unsigned kRebias = 127 - kBias;

  /// value / 2^shift, to nearest, ties to even.
  static constexpr std::uint32_t shifted(std::uint32_t value, unsigned shift) noexcept {
    if (shift > kFloatMantissa + 2) return 0;
    return (value + (1U << (shift - 1)) - 1 + (value >> shift & 1U)) >> shift;
  }

  static constexpr std::uint32_t rounded(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 31 << (kExponentBits + kMantissaBits);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > kFloatInfinity) return kNan;
    const std::uint32_t exponent = magnitude >> kFloatMantissa;
    const bool is_subnormal = kExponentBits < 8 && exponent <= kRebias;
    if (is_subnormal) {
      const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
      return sign | shifted(mantissa, kDropped + 1 + kRebias - exponent);
    }
    const std::uint32_t result = shifted(magnitude, kDropped) - (kRebias << kMantissaBits);
    if (result > kLargest) return sign | (kHasInfinity ? kInfinity : kLargest);
    return sign | result;
  }

  Bits bits_ = 0;
};

}  // namespace cohort

template <class Bits, unsigned kExponentBits, unsigned kMantissaBits, bool kHasInfinity>
class std::numeric_limits<cohort::SmallFloat<Bits, kExponentBits, kMantissaBits, kHasInfinity>> {
  using T = cohort::SmallFloat<Bits, kExponentBits, kMantissaBits, kHasInfinity>;
  static constexpr T of(std::uint32_t bits) noexcept { return T::from_bits(static_cast<Bits>(bits)); }

 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = kHasInfinity;
  static constexpr bool has_quiet_NaN = true;
  static constexpr int radix = 2;
  static constexpr int digits = kMantissaBits + 1;
  static constexpr T min() noexcept { return of(1U << kMantissaBits); }
  static constexpr T max() noexcept { return of(T::kLargest); }
  static constexpr T lowest() noexcept { return of(T::kLargest | T::kSign); }
  static constexpr T denorm_min() noexcept { return of(1); }
  static constexpr T infinity() noexcept { return of(kHasInfinity ? T::kInfinity : 0); }
  static constexpr T quiet_NaN() noexcept { return of(T::kNan); }
};
