// SPDX-License-Identifier: Apache-2.0
//
// How elements become the lanes that are computed with, and back. Included once per instruction set, hence
// the guard that toggles.
#if defined(COHORT_COLLECTIVES_REDUCTION_CODECS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COLLECTIVES_REDUCTION_CODECS_INL_H_
#undef COHORT_COLLECTIVES_REDUCTION_CODECS_INL_H_
#else
#define COHORT_COLLECTIVES_REDUCTION_CODECS_INL_H_
#endif

#include <cohort/collectives/schedules/data_type.h>
#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A codec has: Element, as it lies in memory; Lane, as it is computed with; decode() and encode() between
// vectors of as many of both; kIsExact: no bits are lost, so that it does not matter how many inputs are
// combined at once.

/// Elements that are computed with as they are.
template <class T>
struct Whole {
  using Element = T;
  using Lane = T;
  static constexpr bool kIsExact = true;

  template <class D>
  static HWY_INLINE hn::Vec<D> decode(D, hn::Vec<D> stored) {
    return stored;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> encode(D, hn::Vec<D> value) {
    return value;
  }
};

/// 1 for whatever is not 0.
template <class T>
struct Truth : Whole<T> {
  template <class D>
  static HWY_INLINE hn::Vec<D> decode(D d, hn::Vec<D> stored) {
    return hn::IfThenZeroElse(hn::Eq(stored, hn::Zero(d)), hn::Set(d, T{1}));
  }
};

/// A SmallFloat as float: the same conversions, by vectors.
template <class T>
struct Rounded {
  using Element = typename T::Storage;
  using Lane = float;
  static constexpr bool kIsExact = false;

  template <class D>
  using Stored = hn::Rebind<Element, D>;
  template <class D>
  using Bits = hn::RebindToUnsigned<D>;

  static constexpr unsigned kShift = 23 - T::kMantissa;
  static constexpr unsigned kSignShift = 31 - T::kExponent - T::kMantissa;
  static constexpr std::uint32_t kRebias = 127 - T::kBias;
  static constexpr std::uint32_t kLeastNormal = (kRebias + 1) << 23;
  static constexpr bool kIsBfloat = std::is_same_v<T, bfloat16>;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
  static constexpr bool kIsHalf = std::is_same_v<T, float16>;  ///< the processor converts
#else
  static constexpr bool kIsHalf = false;
#endif

  template <class D>
  static HWY_INLINE hn::Vec<D> decode(D d, hn::Vec<Stored<D>> stored) {
    const Bits<D> bits;
    if constexpr (kIsHalf) {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), stored));
    } else if constexpr (kIsBfloat) {
      return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, stored)));
    } else {
      return decode_bits(d, hn::PromoteTo(bits, stored));
    }
  }

  template <class D>
  static HWY_INLINE hn::Vec<Stored<D>> encode(D d, hn::Vec<D> value) {
    if constexpr (kIsHalf) {
      const auto nan = hn::BitCast(d, hn::Set(Bits<D>(), 0x7fc00000U));  // that of the element, widened
      const auto canonical = hn::IfThenElse(hn::IsNaN(value), nan, value);
      return hn::BitCast(Stored<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), canonical));
    } else {
      return hn::TruncateTo(Stored<D>(), encode_bits(d, value));
    }
  }

 private:
  template <class D>
  static HWY_INLINE hn::Vec<D> decode_bits(D d, hn::Vec<Bits<D>> element) {
    const Bits<D> bits;
    const auto magnitude = hn::And(element, hn::Set(bits, T::kAllOnes));
    const auto sign = hn::ShiftLeft<kSignShift>(hn::Xor(element, magnitude));
    const auto placed = hn::ShiftLeft<kShift>(magnitude);
    auto value = hn::Add(placed, hn::Set(bits, kRebias << 23));
    // Below the least normal number: as its fraction, and then without the number.
    const auto least = hn::Set(bits, kLeastNormal);
    const auto below = hn::Sub(hn::BitCast(d, hn::Add(placed, least)), hn::BitCast(d, least));
    value = hn::IfThenElse(is_less(bits, magnitude, hn::Set(bits, 1U << T::kMantissa)),
                           hn::BitCast(bits, below), value);
    const auto infinity = hn::Set(bits, 0x7f800000U);
    if constexpr (T::kIsIeee) {
      const auto is_finite = is_less(bits, magnitude, hn::Set(bits, T::kInfinity));
      value = hn::IfThenElse(is_finite, value, hn::Or(value, infinity));
    } else {
      const auto is_nan = hn::Eq(magnitude, hn::Set(bits, T::kNan));
      value = hn::IfThenElse(is_nan, hn::Or(value, infinity), value);
    }
    return hn::BitCast(d, hn::Or(value, sign));
  }

  template <class D>
  static HWY_INLINE hn::Vec<Bits<D>> encode_bits(D d, hn::Vec<D> value) {
    const Bits<D> bits;
    const auto all = hn::BitCast(bits, value);
    const auto magnitude = hn::And(all, hn::Set(bits, 0x7fffffffU));
    const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(bits, 1U));
    const auto half = hn::Set(bits, (1U << (kShift - 1)) - 1 - (kRebias << 23));
    auto result = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, half), odd));
    if constexpr (!kIsBfloat) {
      // A number whose last digit is that of the least one below the normal ones makes the sum round there.
      const auto anchor = hn::Set(bits, (kRebias + 1 + kShift) << 23);
      const auto sum = hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, anchor));
      const auto below = hn::Sub(hn::BitCast(bits, sum), anchor);
      result = hn::IfThenElse(is_less(bits, magnitude, hn::Set(bits, kLeastNormal)), below, result);
      result = hn::Min(result, hn::Set(bits, T::kIsIeee ? T::kInfinity : T::kLargest));
    }
    result = hn::Or(result, hn::ShiftRight<kSignShift>(hn::Xor(all, magnitude)));
    return hn::IfThenElse(is_less(bits, hn::Set(bits, 0x7f800000U), magnitude), hn::Set(bits, T::kNan),
                          result);
  }

  /// Of numbers below 2^31, which signed comparisons do as well, and faster.
  template <class B>
  static HWY_INLINE hn::Mask<B> is_less(B bits, hn::Vec<B> left, hn::Vec<B> right) {
    const hn::RebindToSigned<B> as_signed;
    return hn::RebindMask(bits, hn::Lt(hn::BitCast(as_signed, left), hn::BitCast(as_signed, right)));
  }
};

}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles
