// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/reduce_op.h>
#include <gtest/gtest.h>

namespace cohort::reduce_op_test {
namespace {

TEST(ReduceOpTest, every_operation_is_found_by_its_name) {
  for (const ReduceOp op : kReduceOps) EXPECT_EQ(parse_reduce_op(to_string(op)), op);
  EXPECT_EQ(to_string(ReduceOp::prod), "prod");
  EXPECT_EQ(parse_reduce_op("average"), std::nullopt);
}

TEST(ReduceOpTest, bits_are_combined_of_integers_only) {
  EXPECT_TRUE(applies(ReduceOp::bit_xor, DataType::uint8));
  EXPECT_TRUE(applies(ReduceOp::avg, DataType::int8));
  EXPECT_FALSE(applies(ReduceOp::logical_and, DataType::float8_e4m3));
  EXPECT_FALSE(applies(ReduceOp::sum, DataType::byte));
  EXPECT_FALSE(applies(static_cast<ReduceOp>(200), DataType::int32));
}

TEST(ReduceOpTest, damaged_number_still_has_a_name_to_print) {
  EXPECT_EQ(to_string(static_cast<ReduceOp>(200)), "unknown");
}

}  // namespace
}  // namespace cohort::reduce_op_test
