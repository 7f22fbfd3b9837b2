// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/reduction/divide.h>
#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/collectives/memory/reduction/reduce_targets.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace cohort::reduction_test {
namespace {

constexpr std::array<std::size_t, 8> kFanIns{1, 2, 3, 4, 5, 8, 9, 17};
constexpr std::array<std::size_t, 12> kCounts{0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 1000, 4099};
constexpr std::size_t kMaxFanIn = kFanIns.back();
constexpr std::size_t kMaxCount = kCounts.back();

template <std::floating_point T>
T scalar_step(ReduceOp op, T left, T right) {
  if (op == ReduceOp::prod) return left * right;
  if (op == ReduceOp::sum || op == ReduceOp::avg) return left + right;
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<T>::quiet_NaN();
  const bool left_is_below = left < right || (left == right && std::signbit(left));
  return left_is_below == (op == ReduceOp::max) ? right : left;
}

template <class T>
concept Small = Element<T> && !std::floating_point<T> && !std::integral<T>;

template <std::integral T>
T scalar_step(ReduceOp op, T left, T right) {
  using Unsigned = std::make_unsigned_t<T>;
  const auto a = static_cast<Unsigned>(left);
  const auto b = static_cast<Unsigned>(right);
  switch (op) {
    case ReduceOp::max: return left < right ? right : left;
    case ReduceOp::min: return right < left ? right : left;
    case ReduceOp::prod: return static_cast<T>(std::uint64_t{a} * b);
    case ReduceOp::bit_and: return static_cast<T>(a & b);
    case ReduceOp::bit_or: return static_cast<T>(a | b);
    case ReduceOp::bit_xor: return static_cast<T>(a ^ b);
    case ReduceOp::logical_and: return left != 0 && right != 0 ? T{1} : T{0};
    case ReduceOp::logical_or: return left != 0 || right != 0 ? T{1} : T{0};
    case ReduceOp::logical_xor: return (left != 0) != (right != 0) ? T{1} : T{0};
    default: return static_cast<T>(a + b);
  }
}

/// One element, as the contract of Reduction defines it. Small floats are rounded once.
template <Small T>
T scalar_result(ReduceOp op, const std::vector<T>& values, std::size_t average_over) {
  if (values.size() == 1 && average_over == 0) return values[0];
  float result = values[0];
  for (std::size_t j = 1; j < values.size(); ++j) result = scalar_step<float>(op, result, values[j]);
  return T(average_over > 0 ? result / static_cast<float>(average_over) : result);
}

template <class T>
requires(!Small<T>) T scalar_result(ReduceOp op, const std::vector<T>& values, std::size_t average_over) {
  T result = values[0];
  for (std::size_t j = 1; j < values.size(); ++j) result = scalar_step(op, result, values[j]);
  if constexpr (std::integral<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    if (average_over > 0) result = static_cast<T>(result / static_cast<Wide>(average_over));
  } else if (average_over > 0) {
    result /= static_cast<T>(average_over);
  }
  if constexpr (std::floating_point<T>) {
    const bool is_copy = values.size() == 1 && average_over == 0;
    if (std::isnan(result) && !is_copy) return std::numeric_limits<T>::quiet_NaN();
  }
  return result;
}

template <class T>
auto bits(T value) {
  if constexpr (Small<T>)
    return value.bits();
  else if constexpr (std::integral<T>)
    return static_cast<std::make_unsigned_t<T>>(value);
  else
    return std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(value);
}

/// Ordinary values, and one in eight that is anything but.
template <class T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::integral<T>) {
    return static_cast<T>(random() % 8 == 0 ? random() % 2 : random());
  } else if constexpr (Small<T>) {
    const bool is_any = random() % 4 == 0;
    if (is_any) return T::from_bits(static_cast<typename T::Storage>(random()));
    return T(std::uniform_real_distribution<float>(-3, 3)(random));
  } else {
    using Limits = std::numeric_limits<T>;
    const std::array<T, 11> special{T{0},
                                    -T{0},
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    Limits::max(),
                                    Limits::lowest(),
                                    Limits::denorm_min(),
                                    -Limits::denorm_min(),
                                    Limits::min(),
                                    Limits::quiet_NaN(),
                                    -Limits::quiet_NaN()};
    if (random() % 8 == 0) return special[random() % special.size()];
    return std::uniform_real_distribution<T>(T{-3}, T{3})(random);
  }
}

/// Bytes that start `shift` bytes past a cache line, with guards on both sides.
class Buffer {
 public:
  Buffer(std::span<const std::byte> content, std::size_t shift)
      : size_(content.size()), bytes_(size_ + kLine * 4, std::byte{0xA5}) {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    begin_ = kLine - start % kLine + kLine + shift;
    if (size_ > 0) std::memcpy(data(), content.data(), size_);
  }

  std::byte* data() { return bytes_.data() + begin_; }

  /// The offset of the first byte that differs, or none. The guards belong to what must not differ.
  std::optional<std::size_t> first_difference(std::span<const std::byte> expected) const {
    std::vector<std::byte> whole(bytes_.size(), std::byte{0xA5});
    if (size_ > 0) std::memcpy(whole.data() + begin_, expected.data(), size_);
    if (std::memcmp(whole.data(), bytes_.data(), whole.size()) == 0) return std::nullopt;
    const auto at = std::mismatch(whole.begin(), whole.end(), bytes_.begin()).first - whole.begin();
    return static_cast<std::size_t>(at) - begin_;
  }

 private:
  static constexpr std::size_t kLine = 64;

  std::size_t size_;
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
};

/// kMaxFanIn arrays of kMaxCount random values, the same in every test.
template <class T>
const std::vector<std::vector<T>>& random_inputs() {
  static const std::vector<std::vector<T>> inputs = [] {
    std::mt19937_64 random(1);
    std::vector<std::vector<T>> made(kMaxFanIn, std::vector<T>(kMaxCount));
    for (std::vector<T>& input : made) {
      for (T& value : input) value = random_value<T>(random);
    }
    return made;
  }();
  return inputs;
}

/// What the first `fan_in` of random_inputs() come to.
template <class T>
std::vector<T> expected_results(ReduceOp op, std::size_t fan_in, std::size_t average_over,
                                std::size_t count) {
  std::vector<T> expected(count);
  std::vector<T> values(fan_in);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < fan_in; ++j) values[j] = random_inputs<T>()[j][i];
    expected[i] = scalar_result(op, values, average_over);
  }
  return expected;
}

/// How the buffers of one case lie.
struct Layout {
  const char* name;
  std::size_t shift;        ///< buffer j starts j * shift % 16 elements past a cache line
  std::size_t new_outputs;  ///< outputs that are no input
  bool in_place_first;      ///< the first input is an output too
  bool in_place_last;       ///< the last input is an output too
  Stores stores;
};

constexpr std::array<Layout, 11> kLayouts{{
    {"aligned", 0, 1, false, false, Stores::cached},
    {"unaligned", 3, 1, false, false, Stores::cached},
    {"in place", 1, 0, true, false, Stores::cached},
    {"into the last", 5, 0, false, true, Stores::cached},
    {"two", 3, 2, false, false, Stores::cached},
    {"in place and beside", 1, 1, true, false, Stores::cached},
    {"everywhere", 7, 2, true, true, Stores::cached},
    {"streaming", 3, 1, false, false, Stores::streaming},
    {"streaming in place", 1, 0, true, false, Stores::streaming},
    {"streaming two", 4, 2, false, false, Stores::streaming},
    {"streaming everywhere", 5, 2, true, true, Stores::streaming},
}};

struct Case {
  ReduceOp op;
  std::size_t average_over;
  std::size_t fan_in;
  std::size_t count;
  const Layout& layout;
};

template <class T>
void expect_right(const Case& c, const std::vector<T>& expected) {
  const auto input = [&](std::size_t j) {
    return std::as_bytes(std::span(random_inputs<T>()[j]).first(c.count));
  };
  std::vector<Buffer> buffers;  // the inputs, then the new outputs
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<bool> is_output;
  for (std::size_t j = 0; j < c.fan_in + c.layout.new_outputs; ++j) {
    const bool is_input = j < c.fan_in;
    Buffer& buffer = buffers.emplace_back(input(is_input ? j : 0), j * c.layout.shift % 16 * sizeof(T));
    is_output.push_back(!is_input || (j == 0 && c.layout.in_place_first) ||
                        (j + 1 == c.fan_in && c.layout.in_place_last));
    if (is_input) inputs.push_back(buffer.data());
    if (is_output[j]) outputs.push_back(buffer.data());
  }

  reduce({data_type_of<T>(), c.op, c.count, inputs, outputs, c.average_over, c.layout.stores});

  for (std::size_t j = 0; j < buffers.size(); ++j) {
    const auto bytes = is_output[j] ? std::as_bytes(std::span(expected).first(c.count)) : input(j);
    const std::optional<std::size_t> difference = buffers[j].first_difference(bytes);
    ASSERT_FALSE(difference) << fmt::format(
        "{} {} of {} inputs of {} elements, averaged over {}, {}: byte {} of {} {}",
        to_string(data_type_of<T>()), to_string(c.op), c.fan_in, c.count, c.average_over, c.layout.name,
        static_cast<std::int64_t>(*difference), is_output[j] ? "output" : "input", j);
  }
}

template <class T>
void expect_all_right(ReduceOp op, std::size_t average_over) {
  for (const std::size_t fan_in : kFanIns) {
    const std::vector<T> expected = expected_results<T>(op, fan_in, average_over, kMaxCount);
    for (const Layout& layout : kLayouts) {
      for (const std::size_t count : kCounts) {
        if (count == kMaxCount && fan_in > 2 && fan_in < 8)
          continue;  // nothing new, and slow when not optimised
        ASSERT_NO_FATAL_FAILURE(expect_right<T>({op, average_over, fan_in, count, layout}, expected));
      }
    }
  }
}

/// On each instruction set of this machine: every one against the same plain C++, and so against the others.
class ReductionTest : public testing::TestWithParam<std::string> {
 protected:
  ReductionTest() { detail::force_reduction_target(GetParam()); }
  ~ReductionTest() override { detail::force_reduction_target(""); }

  static void expect_all_types_right(ReduceOp op, std::size_t average_over = 0) {
    for (const DataType type : kDataTypes)
      if (applies(op, type))
        visit_element(type, [&](auto element) { expect_all_right<decltype(element)>(op, average_over); });
  }
};

INSTANTIATE_TEST_SUITE_P(EveryTarget, ReductionTest, testing::ValuesIn(detail::reduction_targets()),
                         [](const auto& chosen) { return chosen.param; });

TEST_P(ReductionTest, runs_on_the_chosen_instruction_set) { EXPECT_EQ(reduction_target(), GetParam()); }

TEST_P(ReductionTest, sum_is_right_in_every_bit) { expect_all_types_right(ReduceOp::sum); }
TEST_P(ReductionTest, prod_is_right_in_every_bit) { expect_all_types_right(ReduceOp::prod); }
TEST_P(ReductionTest, max_is_right_in_every_bit) { expect_all_types_right(ReduceOp::max); }
TEST_P(ReductionTest, min_is_right_in_every_bit) { expect_all_types_right(ReduceOp::min); }
TEST_P(ReductionTest, average_is_right_in_every_bit) { expect_all_types_right(ReduceOp::avg, 3); }

TEST_P(ReductionTest, bit_operations_are_right_in_every_bit) {
  for (const ReduceOp op : {ReduceOp::bit_and, ReduceOp::bit_or, ReduceOp::bit_xor})
    expect_all_types_right(op);
}
TEST_P(ReductionTest, logical_operations_are_right_in_every_bit) {
  for (const ReduceOp op : {ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor})
    expect_all_types_right(op);
}

TEST_P(ReductionTest, partial_average_is_the_sum) {
  for (const std::size_t fan_in : {1U, 2U, 9U}) {
    expect_right<float>({ReduceOp::avg, 0, fan_in, 1000, kLayouts[0]},
                        expected_results<float>(ReduceOp::sum, fan_in, 0, 1000));
    expect_right<std::int64_t>({ReduceOp::avg, 0, fan_in, 1000, kLayouts[0]},
                               expected_results<std::int64_t>(ReduceOp::sum, fan_in, 0, 1000));
  }
}

/// Combines `left` and `right` at every place of a vector, a half vector and a single lane.
template <class T>
std::vector<T> combine_everywhere(ReduceOp op, T left, T right) {
  std::vector<T> lefts(127, left);
  const std::vector<T> rights(127, right);
  reduce_into(data_type_of<T>(), op, reinterpret_cast<std::byte*>(lefts.data()),
              reinterpret_cast<const std::byte*>(rights.data()), lefts.size());
  return lefts;
}

template <class T>
void expect_special_values() {
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T payload = std::bit_cast<T>(bits(-nan) | 0x1234U);
  struct Row {
    ReduceOp op;
    T left, right, result;
  };
  const std::array<Row, 18> rows{{
      {ReduceOp::max, T{0}, -T{0}, T{0}},
      {ReduceOp::max, -T{0}, T{0}, T{0}},
      {ReduceOp::max, -T{0}, -T{0}, -T{0}},
      {ReduceOp::min, T{0}, -T{0}, -T{0}},
      {ReduceOp::min, -T{0}, T{0}, -T{0}},
      {ReduceOp::min, T{0}, T{0}, T{0}},
      {ReduceOp::max, payload, inf, nan},
      {ReduceOp::max, inf, payload, nan},
      {ReduceOp::max, -inf, T{1}, T{1}},
      {ReduceOp::min, payload, -inf, nan},
      {ReduceOp::min, -inf, payload, nan},
      {ReduceOp::min, inf, T{1}, T{1}},
      {ReduceOp::sum, inf, -inf, nan},
      {ReduceOp::sum, -nan, payload, nan},
      {ReduceOp::sum, -T{0}, -T{0}, -T{0}},
      {ReduceOp::prod, inf, T{0}, nan},
      {ReduceOp::prod, payload, -nan, nan},
      {ReduceOp::prod, -T{0}, T{1}, -T{0}},
  }};
  for (const Row& row : rows) {
    for (const T value : combine_everywhere(row.op, row.left, row.right)) {
      ASSERT_EQ(bits(value), bits(row.result))
          << to_string(row.op) << " of " << row.left << " and " << row.right;
    }
  }
}

TEST_P(ReductionTest, nan_infinity_and_signed_zero_follow_ieee_754_2019) {
  expect_special_values<float>();
  expect_special_values<double>();
}

TEST_P(ReductionTest, one_input_is_copied_bit_for_bit) {
  const auto signalling = std::bit_cast<float>(0x7f800001U);
  const std::vector<float> input(127, signalling);
  std::vector<float> output(127);
  const std::byte* const from = reinterpret_cast<const std::byte*>(input.data());
  std::byte* const to = reinterpret_cast<std::byte*>(output.data());
  reduce({DataType::float32, ReduceOp::max, 127, std::span(&from, 1), std::span(&to, 1)});
  EXPECT_EQ(std::memcmp(from, to, 127 * sizeof(float)), 0);
}

template <class T>
void expect_average_can_be_finished_later(std::size_t ranks) {
  std::vector<T> values = expected_results<T>(ReduceOp::sum, 5, 0, 1000);
  const std::vector<T> expected = expected_results<T>(ReduceOp::avg, 5, ranks, 1000);
  finish_average(data_type_of<T>(), reinterpret_cast<std::byte*>(values.data()), values.size(), ranks);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(bits(values[i]), bits(expected[i])) << ranks << " ranks";
}

TEST_P(ReductionTest, average_can_be_finished_later) {
  for (const std::size_t ranks : {1U, 2U, 5U, 7U, 64U, 1000U}) {
    expect_average_can_be_finished_later<float>(ranks);
    expect_average_can_be_finished_later<double>(ranks);
    for (const DataType type : kDataTypes)
      if (is_integer(type))
        visit_element(type,
                      [&](auto element) { expect_average_can_be_finished_later<decltype(element)>(ranks); });
  }
}

/// Every element of a small type, once.
template <class T>
std::vector<T> every_element() {
  std::vector<T> all;
  for (unsigned bits = 0; bits < 1U << (8 * sizeof(T)); ++bits)
    all.push_back(
        std::bit_cast<T>(static_cast<std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>>(bits)));
  return all;
}

/// Every element with each of `others`, by the definition.
template <class T>
void expect_every_element_right(ReduceOp op, const std::vector<T>& others, std::size_t average_over = 0) {
  const std::vector<T> all = every_element<T>();
  std::vector<T> out(all.size());
  for (const T other : others) {
    const std::vector<T> second(all.size(), other);
    const std::array inputs{reinterpret_cast<const std::byte*>(all.data()),
                            reinterpret_cast<const std::byte*>(second.data())};
    std::byte* const to = reinterpret_cast<std::byte*>(out.data());
    reduce({data_type_of<T>(), op, all.size(), inputs, std::span(&to, 1), average_over});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const T expected = scalar_result<T>(op, {all[i], other}, average_over);
      ASSERT_EQ(std::memcmp(&out[i], &expected, sizeof(T)), 0)
          << to_string(data_type_of<T>()) << " " << to_string(op) << " of element " << i << " and "
          << static_cast<float>(other) << ", averaged over " << average_over << ": "
          << static_cast<float>(out[i]) << ", not " << static_cast<float>(expected);
    }
  }
}

template <class T>
void expect_every_conversion_right() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> others{T(-0.0F), Limits::max(), Limits::denorm_min(), Limits::quiet_NaN(), T(0.7F)};
  if (sizeof(T) == 1) others = every_element<T>();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min})
    expect_every_element_right<T>(op, others);
  expect_every_element_right<T>(ReduceOp::avg, {T(0.0F), T(0.3F)}, 3);
}

TEST_P(ReductionTest, every_float_of_16_bits_is_read_and_rounded_right) {
  expect_every_conversion_right<float16>();
  expect_every_conversion_right<bfloat16>();
}

TEST_P(ReductionTest, every_pair_of_floats_of_8_bits_is_combined_right) {
  expect_every_conversion_right<float8_e4m3>();
  expect_every_conversion_right<float8_e5m2>();
}

TEST_P(ReductionTest, every_integer_of_8_and_16_bits_is_divided_right) {
  for (const std::size_t by : {2U, 3U, 7U, 64U, 127U, 255U, 257U, 1000U, 32767U, 65535U, 65536U, 16777217U}) {
    expect_every_element_right<std::int8_t>(ReduceOp::avg, {0}, by);
    expect_every_element_right<std::uint8_t>(ReduceOp::avg, {0}, by);
    expect_every_element_right<std::int16_t>(ReduceOp::avg, {0}, by);
    expect_every_element_right<std::uint16_t>(ReduceOp::avg, {0}, by);
  }
}

TEST_P(ReductionTest, small_floats_are_rounded_once_however_many_inputs_there_are) {
  const bfloat16 one(1.0F);
  const bfloat16 little(1.0F / 2048);  // of a sixteenth of the last place of 1 eight are lost by rounding
  const std::vector<bfloat16> first(127, one);
  const std::vector<bfloat16> rest(127, little);
  std::vector<const std::byte*> inputs(17, reinterpret_cast<const std::byte*>(rest.data()));
  inputs[0] = reinterpret_cast<const std::byte*>(first.data());
  std::vector<bfloat16> out(127);
  std::byte* const to = reinterpret_cast<std::byte*>(out.data());
  reduce({DataType::bfloat16, ReduceOp::sum, out.size(), inputs, std::span(&to, 1)});
  for (const bfloat16 value : out) ASSERT_EQ(static_cast<float>(value), 1.0F + 16.0F / 2048);
}

TEST(DivisorTest, divides_integers_without_sign_like_the_processor) {
  std::mt19937_64 random(2);
  constexpr auto kHighest = std::numeric_limits<std::uint64_t>::max();
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t by = round < 100 ? static_cast<std::uint64_t>(round) + 2 : random() >> 33 | 2;
    const detail::Divisor divisor(by);
    const std::uint64_t near_multiple = kHighest / by * by;
    for (const std::uint64_t value : {std::uint64_t{0}, random() >> random() % 63, near_multiple,
                                      near_multiple - 1, kHighest, by, by - 1})
      ASSERT_EQ(divisor.divide(value), value / by) << value << " / " << by;
  }
}

TEST(DivisorTest, divides_like_the_processor) {
  std::mt19937_64 random(1);
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < 20000; ++round) {
    const std::int64_t by = round < 100 ? round + 2 : static_cast<std::int64_t>(random() >> 33) | 2;
    const detail::Divisor divisor(static_cast<std::uint64_t>(by));
    const std::int64_t near_multiple = kHighest / by * by;
    const auto any = static_cast<std::int64_t>(random()) >> random() % 63;
    for (const std::int64_t value :
         {any, near_multiple, near_multiple - 1, kLowest, kLowest + 1, kHighest, by, by - 1, -by, 1 - by}) {
      ASSERT_EQ(divisor.divide(value), value / by) << value << " / " << by;
    }
  }
  const detail::Divisor largest(detail::kMaxDivisor);
  EXPECT_EQ(largest.divide(kLowest), kLowest / static_cast<std::int64_t>(detail::kMaxDivisor));
}

TEST(ReductionDeathTest, wrong_use_is_told) {
  std::byte* none = nullptr;
  const std::byte* const input = nullptr;
  EXPECT_DEATH(reduce({DataType::int32, ReduceOp::sum, 0, {}, std::span(&none, 1)}), "0 inputs, 1 outputs");
  EXPECT_DEATH(reduce({DataType::int32, ReduceOp::max, 0, std::span(&input, 1), std::span(&none, 1), 4}),
               "max");
  EXPECT_DEATH(reduce({DataType::float16, ReduceOp::bit_or, 0, std::span(&input, 1), std::span(&none, 1)}),
               "bit_or of float16");
}

}  // namespace
}  // namespace cohort::reduction_test
