// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/yield_budget.h>

#include <gtest/gtest.h>

namespace cohort::yield_budget_test {
namespace {

/// Waits until it pays again, of which each ends in a sleep.
unsigned rest(YieldBudget& budget) {
  unsigned waits = 0;
  for (; !budget.pays() && waits < 10 * YieldBudget::kLongestRest; ++waits) budget.note_sleep();
  return waits;
}

void fail(YieldBudget& budget) {
  for (unsigned i = 0; i < YieldBudget::kMostFailures; ++i) {
    EXPECT_TRUE(budget.pays());
    budget.note_sleep();
  }
  EXPECT_FALSE(budget.pays());
}

class YieldBudgets : public ::testing::Test {
 protected:
  YieldBudgets() { YieldBudget::expect_ranks_apart(); }
  ~YieldBudgets() override { YieldBudget::expect_ranks_apart(false); }
};

TEST_F(YieldBudgets, rest_after_failures_in_a_row_for_ever_longer) {
  YieldBudget budget;
  fail(budget);
  EXPECT_EQ(rest(budget), YieldBudget::kFirstRest);
  budget.note_sleep();  // one more failure is enough
  EXPECT_EQ(rest(budget), 2 * YieldBudget::kFirstRest);
  for (int i = 0; i < 10; ++i) {
    budget.note_sleep();
    rest(budget);
  }
  budget.note_sleep();
  EXPECT_EQ(rest(budget), YieldBudget::kLongestRest);
}

TEST_F(YieldBudgets, never_rest_while_an_answer_comes_now_and_then) {
  YieldBudget budget;
  for (int i = 0; i < 100; ++i) {
    for (unsigned failures = 1; failures < YieldBudget::kMostFailures; ++failures) budget.note_sleep();
    EXPECT_TRUE(budget.pays());
    budget.note_answer();
  }
}

TEST_F(YieldBudgets, begin_anew_once_an_answer_has_come) {
  YieldBudget budget;
  fail(budget);
  rest(budget);
  budget.note_answer();
  fail(budget);
  EXPECT_EQ(rest(budget), YieldBudget::kFirstRest);
}

/// Each would answer late by a wake, and find that others have slept meanwhile.
TEST_F(YieldBudgets, never_rest_where_ranks_can_yield_to_each_other) {
  YieldBudget::expect_ranks_apart(false);
  YieldBudget budget;
  for (int i = 0; i < 1000; ++i) budget.note_sleep();
  EXPECT_TRUE(budget.pays());
}

}  // namespace
}  // namespace cohort::yield_budget_test
