// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/choice_memo.h>

#include <cohort/collectives/schedules/algorithm_table.h>

#include <gtest/gtest.h>

namespace cohort::choice_memo_test {
namespace {

Call call_of(Operator op, DataType type, std::uint64_t count) {
  Call call(op);
  call.type = type;
  call.count = count;
  call.announced_bytes = call.message_bytes();
  return call;
}

class ChoiceMemoTest : public ::testing::Test {
 protected:
  [[nodiscard]] static const AnyAlgorithm& named(std::string_view name) {
    return *AlgorithmTable::library().find(operator_of<AllReduce>, name);
  }
  ChoiceMemo memo_;
  const Call call_ = call_of(operator_of<AllReduce>, DataType::float32, 1024);
};

TEST_F(ChoiceMemoTest, knows_nothing_at_first) {
  EXPECT_EQ(memo_.find(call_), nullptr);
  EXPECT_EQ(memo_.find(Call(operator_of<AllReduce>)), nullptr) << "a call of no elements";
}

TEST_F(ChoiceMemoTest, finds_what_was_chosen_for_a_call_of_the_same_shape) {
  memo_.keep(call_, named("ring"));
  EXPECT_EQ(memo_.find(call_of(operator_of<AllReduce>, DataType::float32, 1024)), &named("ring"));
}

TEST_F(ChoiceMemoTest, tells_calls_apart_by_operator_type_count_and_what_they_announce) {
  memo_.keep(call_, named("ring"));
  EXPECT_EQ(memo_.find(call_of(operator_of<ReduceScatter>, DataType::float32, 1024)), nullptr);
  EXPECT_EQ(memo_.find(call_of(operator_of<AllReduce>, DataType::float64, 1024)), nullptr);
  EXPECT_EQ(memo_.find(call_of(operator_of<AllReduce>, DataType::float32, 1025)), nullptr);
  Call announcing = call_;
  ++announcing.announced_bytes;
  EXPECT_EQ(memo_.find(announcing), nullptr);
}

/// Whichever share an entry: the last one is found, and none in place of another.
TEST_F(ChoiceMemoTest, keeps_many_shapes_apart) {
  for (std::uint64_t count = 1; count <= 1000; ++count) {
    const Call call = call_of(operator_of<AllReduce>, DataType::float32, count);
    EXPECT_EQ(memo_.find(call), nullptr);
    memo_.keep(call, named(count % 2 == 0 ? "ring" : "tree"));
    EXPECT_EQ(memo_.find(call), &named(count % 2 == 0 ? "ring" : "tree"));
  }
}

}  // namespace
}  // namespace cohort::choice_memo_test
