// SPDX-License-Identifier: Apache-2.0
// A rank whose environment is wrong: no other one waits for it until the time to join is over.
#include <cohort/tools/launch/launcher.h>

#include <cohort/tests/support/process_support.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cohort::wrong_variables_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Three ranks, of which rank 1 has that in its environment; the status of the job.
int status_with(const std::string& variable, Duration time_to_notice, const test::Collector& output) {
  Engine engine({.spin = Duration::zero()});
  const LaunchOptions options = {
      .ranks = 3,
      .command = {"/bin/sh", "-c",
                  fmt::format("[ $COHORT_RANK = 1 ] && export {}; exec {}/cohort bench barrier", variable,
                              COHORT_TEST_BIN_DIR)},
      .environment = {{"COHORT_JOIN_TIMEOUT", "1h"}},
      .time_to_notice = time_to_notice,
      .output_descriptor = output.descriptor(),
      .errors_descriptor = output.descriptor()};
  return engine.run(launch(engine, options));
}

TEST(WrongVariables, are_told_to_all_by_the_rank_that_has_one) {
  const test::Collector output;
  EXPECT_EQ(status_with("COHORT_TIMEOUT=soon", 1h, output), 1);
  const std::string text = output.text();
  for (const char* const rank : {"rank 0", "rank 2"})
    EXPECT_THAT(text,
                ContainsRegex(fmt::format("{}: .*InvalidArgument: rank 1 \\(pid [0-9]+\\) at .* reports: "
                                          "on .*: COHORT_TIMEOUT='soon' is not a duration",
                                          rank)));
  EXPECT_THAT(text, HasSubstr("rank 1: InvalidArgument: COHORT_TIMEOUT='soon' is not a duration"));
}

TEST(WrongVariables, of_the_address_end_the_job_by_the_rank_s_status) {
  const test::Collector output;
  EXPECT_EQ(status_with("COHORT_ADDR=nowhere", 100ms, output), 1);
  EXPECT_THAT(output.text(), AllOf(HasSubstr("'nowhere'"), HasSubstr("ending ranks 0, 2, still running")));
}

}  // namespace
}  // namespace cohort::wrong_variables_test
