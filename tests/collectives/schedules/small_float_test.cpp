// SPDX-License-Identifier: Apache-2.0
// Every number of each format, and every place at which rounding goes one way or the other, against
// arithmetic in double.
#include <cohort/collectives/schedules/data_type.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cohort::small_float_test {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

template <class T>
constexpr Format kFormat{};
template <>
constexpr Format kFormat<float16>{5, 10, true};
template <>
constexpr Format kFormat<bfloat16>{8, 7, true};
template <>
constexpr Format kFormat<float8_e4m3>{4, 3, false};
template <>
constexpr Format kFormat<float8_e5m2>{5, 2, true};

/// By the definition of a binary format.
double value_of(const Format& format, unsigned bits) {
  const unsigned fraction = bits & ((1U << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.mantissa_bits & ((1U << format.exponent_bits) - 1));
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int highest = (1 << format.exponent_bits) - 1;
  const double sign = bits >> (format.exponent_bits + format.mantissa_bits) != 0 ? -1 : 1;
  const unsigned all = (1U << format.mantissa_bits) - 1;
  if (format.has_infinity && exponent == highest)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (!format.has_infinity && exponent == highest && fraction == all)
    return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - format.mantissa_bits);
  return sign * std::ldexp((1U << format.mantissa_bits) + fraction, exponent - bias - format.mantissa_bits);
}

template <class T>
class SmallFloatTest : public testing::Test {};
using Formats = testing::Types<float16, bfloat16, float8_e4m3, float8_e5m2>;
TYPED_TEST_SUITE(SmallFloatTest, Formats);

template <class T>
T from(unsigned bits) {
  return T::from_bits(static_cast<typename T::Storage>(bits));
}
template <class T>
constexpr unsigned kPatterns = 1U << (8 * sizeof(T));

TYPED_TEST(SmallFloatTest, every_pattern_has_its_value) {
  for (unsigned bits = 0; bits < kPatterns<TypeParam>; ++bits) {
    const double expected = value_of(kFormat<TypeParam>, bits);
    const float value = from<TypeParam>(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
}

TYPED_TEST(SmallFloatTest, every_value_comes_back_and_nans_as_the_quiet_one) {
  for (unsigned bits = 0; bits < kPatterns<TypeParam>; ++bits) {
    const float value = from<TypeParam>(bits);
    const TypeParam back(value);
    const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
    ASSERT_EQ(back.bits(), std::isnan(value) ? nan.bits() : bits) << value;
  }
}

/// Of two neighbours, halfway goes to the even one, and what is beside it to the nearer one.
TYPED_TEST(SmallFloatTest, rounds_to_nearest_and_ties_to_even_between_all_neighbours) {
  const unsigned largest = std::numeric_limits<TypeParam>::max().bits();
  for (unsigned low = 0; low < largest; ++low) {
    const float below = from<TypeParam>(low);
    const float above = from<TypeParam>(low + 1);
    const float middle = below + (above - below) / 2;
    const float infinity = std::numeric_limits<float>::infinity();
    const unsigned even = low % 2 == 0 ? low : low + 1;
    const unsigned sign = TypeParam::kSign;
    ASSERT_EQ(TypeParam(middle).bits(), even);
    ASSERT_EQ(TypeParam(-middle).bits(), even | sign);
    ASSERT_EQ(TypeParam(std::nextafter(middle, -infinity)).bits(), low);
    ASSERT_EQ(TypeParam(std::nextafter(middle, infinity)).bits(), low + 1);
    ASSERT_EQ(TypeParam(std::nextafter(-middle, infinity)).bits(), low | sign);
  }
}

TYPED_TEST(SmallFloatTest, what_is_too_large_is_infinite_or_the_largest) {
  using Limits = std::numeric_limits<TypeParam>;
  const float largest = Limits::max();
  const float last_step = largest - from<TypeParam>(Limits::max().bits() - 1U);
  const float tie = largest + last_step / 2;
  const unsigned beyond = Limits::has_infinity ? Limits::infinity().bits() : Limits::max().bits();
  EXPECT_EQ(TypeParam(std::nextafter(tie, 0.0F)).bits(), Limits::max().bits());
  EXPECT_EQ(TypeParam(tie).bits(), beyond);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits(), beyond);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::infinity()).bits(), beyond);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::infinity()).bits(), beyond | TypeParam::kSign);
}

TYPED_TEST(SmallFloatTest, what_is_too_small_is_a_zero_of_its_sign) {
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::denorm_min()).bits(), 0U);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::denorm_min()).bits(), TypeParam::kSign);
  EXPECT_EQ(TypeParam(-0.0F).bits(), TypeParam::kSign);
}

TYPED_TEST(SmallFloatTest, every_nan_becomes_the_positive_quiet_one) {
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU, 0xffc00000U})
    EXPECT_EQ(TypeParam(std::bit_cast<float>(bits)).bits(),
              std::numeric_limits<TypeParam>::quiet_NaN().bits());
}

static_assert(float(float16(1.5F)) == 1.5F && float(std::numeric_limits<float16>::max()) == 65504.0F);
static_assert(float(std::numeric_limits<float8_e4m3>::max()) == 448.0F);
static_assert(float(std::numeric_limits<float8_e5m2>::max()) == 57344.0F);
static_assert(std::numeric_limits<float8_e4m3>::quiet_NaN().bits() == 0x7f);
static_assert(bfloat16(1.0F).bits() == 0x3f80 && sizeof(bfloat16) == 2 && sizeof(float8_e5m2) == 1);

}  // namespace
}  // namespace cohort::small_float_test
