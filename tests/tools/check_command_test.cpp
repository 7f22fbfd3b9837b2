// SPDX-License-Identifier: Apache-2.0
// `cohort check` as a user starts it, and what it prints of cases that fail.
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/error.h>
#include <cohort/tests/support/command.h>
#include <cohort/tools/check/run.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace cohort::check_command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  int status = -1;
  std::string text;
  [[nodiscard]] std::string last_line() const {
    std::istringstream lines(text);
    std::string last;
    for (std::string line; std::getline(lines, line);) last = line;
    return last;
  }
};

Outcome check_command(const std::string& arguments, const std::string& under = "") {
  const std::string program = std::string(COHORT_TEST_BIN_DIR) + "/cohort";
  std::FILE* pipe = ::popen((under + " '" + program + "' check " + arguments + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) outcome.text += some.data();
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

TEST(CheckCommand, checks_all_and_ends_with_the_sum) {
  const Outcome outcome = check_command("--all --ranks 4 --threads 2");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.last_line(), ::testing::ContainsRegex("^[0-9]+ passed, 0 failed$"));
  for (const Operator op : all_operators())
    EXPECT_THAT(outcome.text, HasSubstr(std::string(to_string(op)) + " "));
}

TEST(CheckCommand, checks_what_it_is_asked_for) {
  const Outcome outcome = check_command("broadcast --algorithm ring --ranks 4 --root 2 --counts 0,7");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(outcome.last_line(), "2 passed, 0 failed");
}

TEST(CheckCommand, tells_what_becomes_of_mutants) {
  const Outcome outcome = check_command("all_gather --algorithm ring --mutants --ranks 2-3");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.last_line(), ::testing::ContainsRegex("^[0-9]+ mutants: [0-9]+ caught, .* 0 survive$"));
}

TEST(CheckCommand, checks_a_sample_of_mutants) {
  const auto mutants = [](const std::string& options) {
    return std::stoul(
        check_command("all_gather --algorithm ring --mutants --ranks 3 " + options).last_line());
  };
  const std::size_t all = mutants("");
  const std::size_t sample = mutants("--every 10");
  EXPECT_GE(sample, all / 10);
  EXPECT_LE(sample, all / 10 + 10);  // each case's sample begins with its first
  EXPECT_EQ(check_command("all_gather --every 10").status, 2);
}

TEST(CheckCommand, certifies_the_order_of_combination) {
  EXPECT_THAT(check_command("all_reduce --algorithm mesh --ranks 5").text,
              HasSubstr("D3: ((0 + 1) + 2) + ..."));
  EXPECT_THAT(check_command("all_reduce --algorithm ring --ranks 5").text,
              HasSubstr("D1: fixed; with 5 ranks"));
}

TEST(CheckCommand, refuses_what_makes_no_sense) {
  for (const char* const arguments :
       {"", "--all all_reduce", "no_such_operator", "all_reduce --ranks 0", "all_reduce --ranks 5-2",
        "all_reduce --ranks x", "barrier --algorithm mesh --ranks 2", "--all --threads 0"})
    EXPECT_EQ(check_command(arguments).status, 2) << arguments;
}

TEST(CheckCommand, says_what_was_given_and_why_it_is_wrong) {
  const auto refuses = [](const std::string& arguments, const std::string& why) {
    const Outcome outcome = check_command(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(why));
  };
  refuses("barrier --ranks -4", "--ranks: LIST='-4' is not a whole number from 1 to 1024");
  refuses("barrier --ranks 2,4-", "--ranks: LIST='4-' is not a whole number");
  refuses("barrier --ranks ''", "--ranks: LIST='' is not a whole number");
  refuses("barrier --ranks 9-2", "--ranks: '9-2' ends before it begins; write 2-9");
  refuses("all_reduce --ranks 2 --counts -1", "--counts: LIST='-1' is not a whole number");
  refuses("all_reduce --ranks 2 --counts ''", "--counts: LIST='' is not a whole number");
  refuses("broadcast --ranks 5 --root 9", "root 9 is no rank of 5: give one from 0 to 4");
  refuses("broadcast --ranks 2,5 --root 5 --mutants", "root 5 is no rank of 5");
}

TEST(CheckCommand, interrupted_tells_what_it_has_found_so_far) {
  Outcome outcome;
  for (int seconds = 1; outcome.text.empty() && seconds < 60; seconds *= 4)  // until it has begun by then
    outcome = check_command("--all --ranks 64 --threads 2",
                            fmt::format("timeout --preserve-status -s INT {}", seconds));
  EXPECT_EQ(outcome.status, 130) << outcome.text;
  EXPECT_THAT(outcome.text, ::testing::ContainsRegex("\n[0-9]+ passed, 0 failed\n"));
  EXPECT_THAT(outcome.last_line(),
              ::testing::ContainsRegex("^interrupted: [0-9]+ of [0-9]+ cases were run$"));
}

TEST(Command, that_there_is_none_of_is_told_with_those_that_there_are) {
  const test::CommandOutcome outcome = test::run_cohort("frobnicate", true);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text(), HasSubstr("Commands: run, bench, check, sim, explain, graph, soak, topo, "
                                        "doctor\n"));
}

TEST(Command, run_with_a_timeout_of_zero_has_none) {
  const test::CommandOutcome outcome = test::run_cohort("run -n 1 --timeout 0 -- sleep 0.1");
  EXPECT_EQ(outcome.status, 0) << outcome.text();
}

TEST(CheckCommand, numbers_are_lists_and_ranges) {
  EXPECT_THAT(check::parse_numbers("--ranks", "2-4,9", 2, 64), ElementsAre(2, 3, 4, 9));
  EXPECT_THROW((void)check::parse_numbers("--ranks", "65", 2, 64), Error);
  EXPECT_THROW((void)check::parse_numbers("--ranks", "4-3", 2, 64), Error);
}

TEST(CheckCommand, a_case_that_fails_is_printed_with_its_findings) {
  check::CaseFilter filter;
  filter.op = operator_of<Barrier>;
  filter.algorithm = "one_shot";
  filter.ranks = {4};
  std::vector<check::Case> list = check::cases(filter);
  ASSERT_EQ(list.size(), 1U);
  list.push_back(list.front());
  list.back().algorithm = AlgorithmTable::library().find(operator_of<Barrier>, "direct");
  list.back().options.operations = 0;  // refused: an error of the caller, told as a failed case
  std::FILE* const out = std::tmpfile();
  EXPECT_FALSE(check::run_cases(check::source_of(list), 2, out, out));
  EXPECT_EQ(std::fseek(out, 0, SEEK_SET), 0);
  std::string text;
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), out) != nullptr) text += some.data();
  std::fclose(out);
  EXPECT_THAT(text, HasSubstr("FAILED barrier direct, 4 ranks\n"));
  EXPECT_THAT(text, HasSubstr("1 passed, 1 failed\n"));
}

}  // namespace
}  // namespace cohort::check_command_test
