// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/pattern.h>

#include <gtest/gtest.h>

#include <cstring>

namespace cohort::bench {
namespace {

/// Longer than a chunk, and ending within one.
constexpr std::size_t kCount = 2501;

std::vector<std::byte> written(const Pattern& pattern, DataType type, std::uint64_t first) {
  std::vector<std::byte> values(kCount * size_bytes(type));
  pattern.write(values, first);
  return values;
}

class PatternTest : public ::testing::TestWithParam<DataType> {};

TEST_P(PatternTest, what_was_written_is_right_and_each_other_element_is_counted) {
  const TestData data(GetParam(), ReduceOp::sum, 3);
  const std::size_t element = size_bytes(GetParam());
  std::vector<std::byte> values = written(data.input, GetParam(), 7);
  EXPECT_EQ(data.input.count_wrong(values, 7), 0U);
  for (const std::size_t index : {std::size_t{0}, std::size_t{60}, std::size_t{1000}, kCount - 1})
    values[index * element] ^= std::byte{1};
  EXPECT_EQ(data.input.count_wrong(values, 7), 4U);
}

TEST_P(PatternTest, a_block_in_a_wrong_place_shows) {
  const TestData data(GetParam(), ReduceOp::sum, 3);
  const std::vector<std::byte> values = written(data.input, GetParam(), 0);
  for (std::uint64_t shift = 1; shift < kPeriod; ++shift)
    EXPECT_EQ(data.input.count_wrong(values, shift), kCount) << "shifted by " << shift;
  EXPECT_EQ(data.input.count_wrong(values, kPeriod), 0U);
}

INSTANTIATE_TEST_SUITE_P(Types, PatternTest, ::testing::ValuesIn(kDataTypes),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(TestData, ranks_and_iterations_contribute_different_values) {
  const TestData data(DataType::int32, ReduceOp::sum, 4);
  const auto values = written(data.input, DataType::int32, TestData::first_of(1, 3));
  EXPECT_EQ(data.input.count_wrong(values, TestData::first_of(1, 3)), 0U);
  EXPECT_EQ(data.input.count_wrong(values, TestData::first_of(2, 3)), kCount);
  EXPECT_EQ(data.input.count_wrong(values, TestData::first_of(1, 4)), kCount);
}

/// The definition of each operation, over what TestData says that the ranks contribute.
double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg: return a + b;
    case ReduceOp::max: return a > b ? a : b;
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::prod: return a * b;
  }
  return 0;
}

TEST(TestData, combined_is_what_the_inputs_of_all_ranks_make_in_any_iteration) {
  constexpr Rank kRanks = 5;
  constexpr std::uint64_t kSequence = 9;
  for (const ReduceOp op : kReduceOps) {
    const TestData data(DataType::float64, op, kRanks);
    std::vector<double> expected(kCount);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const auto bytes = written(data.input, DataType::float64, TestData::first_of(rank, kSequence));
      for (std::size_t i = 0; i < kCount; ++i) {
        double value = 0;
        std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
        expected[i] = rank == 0 ? value : combine(op, expected[i], value);
      }
    }
    for (double& value : expected) value = op == ReduceOp::avg ? value / kRanks : value;
    EXPECT_EQ(data.combined.count_wrong(std::as_bytes(std::span(expected)), TestData::first_of(0, kSequence)),
              0U)
        << to_string(op);
  }
}

}  // namespace
}  // namespace cohort::bench
