// SPDX-License-Identifier: Apache-2.0
// The sample `survivors` as a user starts it: ranks are killed amid collectives, the others go on.
#include <cohort/tests/support/command.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace cohort::survivors_test {
namespace {

using cohort::test::run_cohort;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Outcome = cohort::test::CommandOutcome;

Outcome survivors(const std::string& launcher, const std::string& arguments) {
  return run_cohort(fmt::format("run {} -- {}/survivors {}", launcher, COHORT_TEST_BIN_DIR, arguments), true);
}

struct Case {
  const char* name;
  const char* transport;
  const char* lost;
  std::vector<int> left;
  const char* told;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Survivors : public ::testing::TestWithParam<Case> {};

TEST_P(Survivors, go_on_without_the_ranks_that_are_killed_and_lose_no_work) {
  const Case& of = GetParam();
  const Outcome outcome = survivors(fmt::format("-n 4 --keep-going --transport {}", of.transport),
                                    std::string("--steps 60 ") + of.lost);
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  for (const int rank : of.left)
    EXPECT_THAT(outcome.text(),
                HasSubstr(fmt::format("[{0}] rank {0}: 60 steps, as one of {1} at last, all weights "
                                      "right; lost: {2}\n",
                                      rank, of.left.size(), of.told)));
  EXPECT_THAT(outcome.text(), Not(HasSubstr("ending rank")));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Survivors,
    ::testing::Values(Case{"none_shm", "shm", "", {0, 1, 2, 3}, "nobody"},
                      Case{"one_shm", "shm", "--lose 2 20", {0, 1, 3}, "2"},
                      Case{"one_tcp", "tcp", "--lose 2 20", {0, 1, 3}, "2"},
                      Case{"the_first_shm", "shm", "--lose 0 20", {1, 2, 3}, "0"},
                      Case{"the_first_tcp", "tcp", "--lose 0 20", {1, 2, 3}, "0"},
                      Case{"one_after_the_other_shm", "shm", "--lose 2 20 --lose 0 40", {1, 3}, "0, 2"},
                      Case{"one_after_the_other_tcp", "tcp", "--lose 0 20 --lose 3 40", {1, 2}, "0, 3"},
                      Case{"two_at_once_shm", "shm", "--lose 1 20 --lose 2 20", {0, 3}, "1, 2"},
                      Case{"two_at_once_tcp", "tcp", "--lose 0 20 --lose 1 20", {2, 3}, "0, 1"},
                      Case{"all_but_one_shm", "shm", "--lose 0 10 --lose 1 20 --lose 2 30", {3}, "0, 1, 2"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(SurvivorsWithoutKeepGoing, are_ended_by_the_launcher_or_done_before_and_the_status_says_who_was_killed) {
  const Outcome outcome = survivors("-n 3", "--steps 1000000 --lose 1 20");
  EXPECT_EQ(outcome.status, 128 + 9) << outcome.text();
  EXPECT_THAT(outcome.text(), HasSubstr("was killed by SIGKILL"));
}

}  // namespace
}  // namespace cohort::survivors_test
