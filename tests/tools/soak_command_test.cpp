// SPDX-License-Identifier: Apache-2.0
// `cohort soak` as a user starts it.
#include <cohort/tests/support/command.h>

#include <gmock/gmock.h>

#include <string>

namespace cohort {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using testing::run_cohort;

TEST(SoakCommand, refuses_numbers_with_what_they_may_be) {
  for (const std::string jobs : {"x", "0", "-1"}) {
    const CommandOutcome outcome = run_cohort("soak --jobs " + jobs, true);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.text(), HasSubstr("not in range 1 to 1000000000"));
  }
  for (const std::string seed : {"x", "-1", "1e3"}) {
    const CommandOutcome outcome = run_cohort("soak --jobs 1 --seed " + seed, true);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.text(), HasSubstr("--seed: NUMBER='" + seed +
                                          "' is not a whole number from 0 to 18446744073709551615"));
  }
}

TEST(SoakCommand, results_that_are_lost_fail_it) {
  const CommandOutcome outcome = run_cohort("soak --jobs 1 2>&1 > /dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text(), HasSubstr("results are lost"));
}

}  // namespace
}  // namespace cohort
