// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/memory.h>

#include <gtest/gtest.h>

namespace cohort::check::memory_test {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 40;

struct Bed {
  Order order{2};
  Expressions expressions{2};
  Memory memory{kBytes, {expressions.leftover(WindowId::recv), 0}};
  Conflicts conflicts;

  Access next(StreamId stream, TaskId task) { return {order.tick(stream), task}; }
  void write(std::size_t at, std::size_t bytes, ExpressionId what, const Access& by) {
    memory.write(at, {{bytes, {what, 0}}}, by, order, conflicts);
  }
};

TEST(Memory, holds_what_was_written_with_its_place) {
  Bed bed;
  const ExpressionId zero = bed.expressions.contribution(1, 0);
  bed.write(100, 50, zero, bed.next(0, 1));
  const Content content = bed.memory.peek(90, 70);
  ASSERT_EQ(content.size(), 3U);
  EXPECT_EQ(content[0].bytes, 10U);
  EXPECT_EQ(content[1].bytes, 50U);
  EXPECT_EQ(content[1].value, (Value{zero, 0}));
  const Content inside = bed.memory.peek(120, 10);
  ASSERT_EQ(inside.size(), 1U);
  EXPECT_EQ(inside[0].value, (Value{zero, 20}));
  EXPECT_EQ(bed.memory.writer_at(149).task, 1U);
  EXPECT_EQ(bed.memory.writer_at(150).task, 0U);
}

TEST(Memory, reports_the_bytes_that_two_unordered_accesses_share) {
  Bed bed;
  bed.write(0, 100, bed.expressions.contribution(1, 0), bed.next(0, 1));
  (void)bed.memory.read(90, 20, bed.next(1, 2), bed.order, bed.conflicts);
  ASSERT_EQ(bed.conflicts.size(), 1U);
  EXPECT_EQ(bed.conflicts[0].begin, 90U);
  EXPECT_EQ(bed.conflicts[0].end, 100U);
  EXPECT_EQ(bed.conflicts[0].earlier, 1U);
  EXPECT_TRUE(bed.conflicts[0].earlier_writes);
}

TEST(Memory, lets_readers_meet_and_not_a_writer) {
  Bed bed;
  (void)bed.memory.read(0, 100, bed.next(0, 1), bed.order, bed.conflicts);
  (void)bed.memory.read(0, 100, bed.next(1, 2), bed.order, bed.conflicts);
  EXPECT_TRUE(bed.conflicts.empty());
  bed.write(50, 10, 0, bed.next(1, 3));
  ASSERT_EQ(bed.conflicts.size(), 1U);
  EXPECT_EQ(bed.conflicts[0].earlier, 1U);
  EXPECT_FALSE(bed.conflicts[0].earlier_writes);
}

TEST(Memory, accepts_what_is_ordered) {
  Bed bed;
  bed.write(0, 100, 0, bed.next(0, 1));
  bed.order.learn(1, bed.order.stamp(0));
  (void)bed.memory.read(0, 100, bed.next(1, 2), bed.order, bed.conflicts);
  bed.order.learn(0, bed.order.stamp(1));
  bed.write(0, 100, 0, bed.next(0, 3));
  EXPECT_TRUE(bed.conflicts.empty());
}

TEST(Expressions, are_equal_exactly_where_bits_are) {
  Expressions of(3);
  const ExpressionId a = of.contribution(1, 0);
  const ExpressionId b = of.contribution(1, 1);
  const ExpressionId c = of.contribution(1, 2);
  EXPECT_EQ(of.combine(a, b, 0), of.combine(b, a, 0));
  EXPECT_NE(of.combine(of.combine(a, b, 0), c, 0), of.combine(a, of.combine(b, c, 0), 0));
  EXPECT_NE(of.combine(a, b, 4), of.combine(a, b, 0));
  EXPECT_NE(of.contribution(2, 0), a);
}

TEST(Expressions, tell_one_step_from_several) {
  using Step = Expressions::Step;
  Expressions of(3);
  const ExpressionId ab = of.combine(of.contribution(1, 0), of.contribution(1, 1), 0);
  const ExpressionId in_one = of.combine(ab, of.contribution(1, 2), 0, Step::goes_on);
  const ExpressionId in_two = of.combine(ab, of.contribution(1, 2), 0);
  EXPECT_NE(in_one, in_two);
  EXPECT_NE(of.fingerprint(in_one), of.fingerprint(in_two));
  EXPECT_TRUE(of.is_in_rank_order(in_one));
  EXPECT_TRUE(of.is_in_rank_order(in_two));
  EXPECT_TRUE(of.is_at_once(ab));
  EXPECT_TRUE(of.is_at_once(in_one));
  EXPECT_FALSE(of.is_at_once(in_two));
  EXPECT_TRUE(of.is_at_once(of.average(in_one, Step::goes_on)));
  EXPECT_FALSE(of.is_at_once(of.average(in_one)));
  EXPECT_FALSE(of.is_at_once(of.average(in_two, Step::goes_on)));
  EXPECT_TRUE(of.is_whole(of.average(in_one, Step::goes_on), 1, {0, 3}, true));
}

TEST(Expressions, know_whole_ones_in_rank_order) {
  Expressions of(3);
  const ExpressionId ab = of.combine(of.contribution(1, 0), of.contribution(1, 1), 0);
  const ExpressionId whole = of.combine(ab, of.contribution(1, 2), 0);
  EXPECT_TRUE(of.is_whole(whole, 1, {0, 3}, false));
  EXPECT_TRUE(of.is_in_rank_order(whole));
  EXPECT_EQ(of.text(of.average(whole)), "avg ((0 + 1) + 2)");
  const ExpressionId other =
      of.combine(of.contribution(1, 0), of.combine(of.contribution(1, 1), of.contribution(1, 2), 0), 0);
  EXPECT_TRUE(of.is_whole(other, 1, {0, 3}, false));
  EXPECT_FALSE(of.is_in_rank_order(other));
  EXPECT_FALSE(of.is_whole(ab, 1, {0, 3}, false));
  EXPECT_FALSE(of.is_whole(whole, 2, {0, 3}, false));
  EXPECT_FALSE(of.is_whole(whole, 1, {0, 3}, true));
  EXPECT_FALSE(of.is_whole(of.average(of.average(whole)), 1, {0, 3}, true));
  EXPECT_FALSE(of.is_whole(of.combine(of.average(ab), of.contribution(1, 2), 0), 1, {0, 3}, false));
}

TEST(Expressions, know_combinations_of_some_ranks) {
  Expressions of(4, true);
  const ExpressionId ab = of.combine(of.contribution(1, 0), of.contribution(1, 1), 0);
  const ExpressionId abc = of.combine(ab, of.contribution(1, 2), 0);
  EXPECT_TRUE(of.is_whole(ab, 1, {0, 2}, false));
  EXPECT_TRUE(of.is_in_rank_order(ab));
  EXPECT_TRUE(of.is_whole(of.average(ab), 1, {0, 2}, true));
  EXPECT_FALSE(of.is_whole(abc, 1, {0, 2}, false));
  EXPECT_FALSE(of.is_whole(ab, 1, {1, 3}, false));
  EXPECT_EQ(of.objection(ab, 1, {0, 3}, false).text, "lacks the contribution of rank 2: it is (0 + 1)");
  EXPECT_EQ(of.objection(abc, 1, {0, 2}, false).text,
            "has the contribution of rank 2, which is no part of it: it is ((0 + 1) + 2)");
}

TEST(Expressions, say_what_is_wrong) {
  Expressions of(3);
  const ExpressionId a = of.contribution(1, 0);
  const ExpressionId ab = of.combine(a, of.contribution(1, 1), 0);
  EXPECT_EQ(of.objection(ab, 1, {0, 3}, false).text, "lacks the contribution of rank 2: it is (0 + 1)");
  EXPECT_EQ(of.objection(of.combine(ab, a, 0), 1, {0, 3}, false).text,
            "has the contribution of rank 0 twice: ((0 + 1) + 0)");
  EXPECT_EQ(of.objection(of.leftover(WindowId::scratch), 1, {0, 3}, false).text,
            "holds leftovers of scratch");
}

}  // namespace
}  // namespace cohort::check::memory_test
