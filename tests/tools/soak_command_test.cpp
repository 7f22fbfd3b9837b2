// SPDX-License-Identifier: Apache-2.0
// `cohort soak` as a user starts it.
#include <cohort/tests/support/command.h>

#include <gmock/gmock.h>

#include <string>

namespace cohort::soak_command_test {
namespace {

using test::CommandOutcome;
using test::run_cohort;
using ::testing::HasSubstr;

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

TEST(SoakCommand, tells_its_seeds_and_logs_nothing_of_simulated_ranks) {
  const CommandOutcome outcome = run_cohort("soak --jobs 150", true);
  EXPECT_EQ(outcome.status, 0);
  ASSERT_EQ(outcome.lines.size(), 2U) << outcome.text();
  EXPECT_THAT(outcome.lines[0], HasSubstr("seeds 1 to 150, "));
  EXPECT_EQ(outcome.lines[1], "150 passed, 0 failed");
}

TEST(SoakCommand, shows_times_in_their_units_and_what_separates_calls_between_them) {
  const CommandOutcome outcome = run_cohort("soak --jobs 20 --show");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text(), ::testing::ContainsRegex("[0-9]+ s to join, [0-9]+ m?s a call: [a-z]"));
  for (const char* odd : {":;", ": ;", "000000 us", ";\n"})
    EXPECT_THAT(outcome.text(), ::testing::Not(HasSubstr(odd)));
}

TEST(SoakCommand, interrupted_tells_what_it_has_found_so_far) {
  const CommandOutcome outcome = run_cohort("soak --jobs 1000000 & sleep 1; kill -INT $!; wait $!");
  EXPECT_EQ(outcome.status, 130) << outcome.text();
  EXPECT_THAT(outcome.text(),
              ::testing::ContainsRegex("interrupted: [0-9]+ of 1000000 jobs were run; go on with"));
}

TEST(SoakCommand, interrupted_amid_a_job_of_processes_counts_it_as_neither) {
  const CommandOutcome outcome = run_cohort(
      "soak --processes --transport shm --jobs 5 --job-time 1min & sleep 2; kill -INT $!; wait $!");
  EXPECT_EQ(outcome.status, 130) << outcome.text();
  EXPECT_THAT(outcome.text(), HasSubstr("0 passed, 0 failed\ninterrupted: 0 of 5 jobs were run; go on with"));
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

TEST(SoakCommand, does_not_take_options_of_processes_for_simulated_worlds) {
  const CommandOutcome outcome = run_cohort("soak --jobs 1 --longest-stop 5s", true);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text(), HasSubstr("only with --processes"));
}

}  // namespace
}  // namespace cohort::soak_command_test
