// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/print.h>
#include <cohort/tools/bench/pattern.h>

#include <cohort/collectives/memory/reduction/reduce.h>

#include <gtest/gtest.h>

namespace cohort::bench::pattern_test {
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
  const bool has_few_values = !is_integer(GetParam()) && size_bytes(GetParam()) == 1;
  const std::vector<std::byte> values = written(data.input, GetParam(), 0);
  for (std::uint64_t shift = 1; shift < kPeriod; ++shift)
    EXPECT_GE(data.input.count_wrong(values, shift), has_few_values ? kCount / 2 : kCount) << shift;
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

/// What the library makes of the inputs of that many ranks, in an order that few schedules have.
std::vector<std::byte> reduced(const TestData& data, DataType type, ReduceOp op, Rank ranks,
                               std::uint64_t sequence) {
  std::vector<std::byte> result = written(data.input, type, TestData::first_of(ranks - 1, sequence));
  for (Rank rank = 0; rank + 1 < ranks; ++rank) {
    const auto bytes = written(data.input, type, TestData::first_of((rank * 2 + 1) % (ranks - 1), sequence));
    reduce_into(type, op, result.data(), bytes.data(), kCount);
  }
  if (op == ReduceOp::avg) finish_average(type, result.data(), kCount, ranks);
  return result;
}

TEST_P(PatternTest, combined_is_what_the_inputs_of_all_ranks_make_in_any_order_and_iteration) {
  constexpr std::uint64_t kSequence = 9;
  for (const ReduceOp op : kReduceOps) {
    if (!applies(op, GetParam())) continue;
    for (const Rank ranks : {6U, 24U, 256U}) {
      const TestData data(GetParam(), op, ranks);
      const std::vector<std::byte> result = reduced(data, GetParam(), op, ranks, kSequence);
      EXPECT_EQ(data.combined.count_wrong(result, TestData::first_of(0, kSequence)), 0U)
          << to_string(op) << " of " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace cohort::bench::pattern_test
