// SPDX-License-Identifier: Apache-2.0
// Of two ranks that differ, neither is contradicted by most.
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort::two_that_differ_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What rank 0 is told when that one alone gives 5 elements, and others 4.
std::string text_of_mismatch(Rank ranks, Rank odd) {
  const auto body = [odd](Communicator& comm) -> Task<> {
    std::vector<float> values(comm.rank() == odd ? 5 : 4);
    co_await comm.all_reduce(values, ReduceOp::sum);
  };
  const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(ranks, body);
  return outcomes[0].error ? outcomes[0].error->what() : "no error";
}

TEST(TwoThatDiffer, are_both_named) {
  for (const Rank odd : {0U, 1U}) {
    const std::string text = text_of_mismatch(2, odd);
    EXPECT_THAT(text, HasSubstr("(look at rank 0 ("));
    EXPECT_THAT(text, HasSubstr(" and rank 1 ("));
    EXPECT_THAT(text, HasSubstr("which of them is wrong, no majority tells"));
  }
}

TEST(TwoThatDiffer, of_three_one_is_named) {
  for (const Rank odd : {0U, 1U, 2U}) {
    const std::string text = text_of_mismatch(3, odd);
    EXPECT_THAT(text, HasSubstr("(look at rank " + std::to_string(odd) + " ("));
    EXPECT_THAT(text, Not(HasSubstr("no majority")));
  }
}

}  // namespace
}  // namespace cohort::two_that_differ_test
