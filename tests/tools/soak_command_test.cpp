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

/// Any but the first would do, if it has time for some calls.
constexpr const char* kShortJob = "soak --processes --jobs 1 --transport shm --longest-stop 20ms --job-time ";

TEST(SoakCommand, finds_a_process_that_touches_a_buffer_after_its_call) {
  const CommandOutcome outcome = run_cohort(std::string(kShortJob) + "3s --plant-touch");
  EXPECT_EQ(outcome.status, 1) << outcome.text();
  EXPECT_THAT(outcome.text(), HasSubstr("was changed after the call was over"));
  EXPECT_THAT(outcome.text(), HasSubstr("again: cohort soak --processes --seed 1 --jobs 1"));
}

TEST(SoakCommand, finds_a_process_that_gives_wrong_data) {
  const CommandOutcome outcome = run_cohort(std::string(kShortJob) + "3s --plant-data");
  EXPECT_EQ(outcome.status, 1) << outcome.text();
  EXPECT_THAT(outcome.text(), HasSubstr("succeeded: element"));
}

TEST(SoakCommand, does_not_take_options_of_simulated_worlds_for_processes) {
  const CommandOutcome outcome = run_cohort("soak --processes --trace", true);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text(), HasSubstr("--trace is of simulated worlds"));
}

}  // namespace
}  // namespace cohort
