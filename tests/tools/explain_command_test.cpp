// SPDX-License-Identifier: Apache-2.0
// `cohort explain` as a user starts it: the program itself, its output and its status.
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/tests/support/command.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <ostream>
#include <string>
#include <vector>

namespace cohort::explain_command_test {
namespace {

using cohort::test::run_cohort;
using cohort::test::split;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Outcome = cohort::test::CommandOutcome;

Outcome explain(const std::string& arguments, bool and_errors = false) {
  return run_cohort("explain " + arguments, and_errors);
}

std::vector<nlohmann::json> objects_of(const Outcome& outcome) {
  std::vector<nlohmann::json> objects;
  for (const std::string& line : outcome.lines) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

/// The rows of the table: size, algorithm, estimate and the reason's words.
std::vector<std::vector<std::string>> rows_of(const Outcome& outcome) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : outcome.lines)
    if (!line.empty() && line.front() != '#') rows.push_back(split(line, ' '));
  return rows;
}

/// With the words that go on below a row in it.
std::vector<std::string> unwrapped_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kIndent = 42;
  std::vector<std::string> joined;
  for (const std::string& line : lines) {
    const bool goes_on = line.size() > kIndent && line.front() == '#' &&
                         line.find_first_not_of(' ', 1) > kIndent && !joined.empty();
    if (goes_on)
      joined.back() += line.substr(kIndent);
    else
      joined.push_back(line);
  }
  return joined;
}

std::string unwrapped(const Outcome& outcome) {
  std::string text;
  for (const std::string& line : unwrapped_lines(outcome.lines)) text += line + "\n";
  return text;
}

TEST(Explain, a_row_for_each_size_then_what_was_measured) {
  const Outcome outcome = explain("all_reduce --ranks 3 --transport shm --min 8 --max 8M --factor 1024");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  const auto rows = rows_of(outcome);
  ASSERT_EQ(rows.size(), 3U) << outcome.text();
  EXPECT_EQ(rows[0][0], "8");
  EXPECT_EQ(rows[0][1], "slots");
  EXPECT_EQ(rows[2][0], "8388608");
  EXPECT_EQ(rows[2][1], "direct");
  EXPECT_THAT(unwrapped(outcome), AllOf(HasSubstr("3 ranks over shm"), HasSubstr("arrival slots"),
                                        HasSubstr("slots (us)"), Not(HasSubstr("Links are weighed"))));
}

TEST(Explain, the_machine_is_named_as_the_library_sees_it) {
  const Outcome outcome = explain("all_reduce --ranks 1 --sizes 8");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_THAT(outcome.text(), AllOf(HasSubstr("# This machine:"), HasSubstr("cores"),
                                    HasSubstr("last-level cache"), HasSubstr("huge pages")));
  const auto machine = objects_of(explain("all_reduce --ranks 1 --sizes 8 --json")).at(1);
  EXPECT_GE(machine.at("cores"), 1);
  EXPECT_GE(machine.at("last_level_cache_bytes"), machine.at("core_cache_bytes"));
}

TEST(Explain, over_links_estimates_and_the_model_are_shown) {
  const Outcome outcome = explain("all --ranks 3 --transport tcp --sizes 8,64K,1M");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  const auto rows = rows_of(outcome);
  ASSERT_EQ(rows.size(), 1U + (cohort::kOperators - 1) * 3U) << outcome.text();
  for (const auto& row : rows) EXPECT_GT(std::stod(row[2]), 0) << row[0] << " " << row[1];
  EXPECT_THAT(outcome.text(), AllOf(HasSubstr("least estimate"), HasSubstr("# Links are weighed with"),
                                    HasSubstr("message"), Not(HasSubstr("slots (us)"))));
}

TEST(Explain, verbose_shows_every_algorithm_and_why_it_was_not_taken) {
  const Outcome brief = explain("broadcast --transport tcp --sizes 1M");
  const Outcome outcome = explain("broadcast --transport tcp --sizes 1M --verbose");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  for (const char* text : {"rounds", "needs memory that all ranks map", "no schedule for broadcast: "}) {
    EXPECT_THAT(unwrapped(outcome), HasSubstr(text));
    EXPECT_THAT(unwrapped(brief), Not(HasSubstr(text)));
  }
}

TEST(Explain, rows_fit_a_page_and_say_once_what_holds_for_all) {
  const Outcome outcome = explain("all_reduce --ranks 3 --transport tcp --sizes 8,64K --verbose");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  const std::string text = unwrapped(outcome);
  for (const std::string told : {"no schedule for all_reduce", "byte combined", "ranks per core"}) {
    EXPECT_NE(text.find(told), std::string::npos) << told;
    EXPECT_EQ(text.find(told), text.rfind(told)) << told;
  }
  std::size_t rows = 0;
  for (const std::string& line : outcome.lines) {
    if (line == "# This machine:") break;
    EXPECT_LE(line.size(), 100U) << line;
    ++rows;
  }
  EXPECT_GT(rows, 30U);
}

TEST(Explain, what_was_measured_decides_what_is_chosen) {
  std::vector<nlohmann::json> objects;
  nlohmann::json measured;
  // A host that is busy for a moment may have no time to measure in.
  for (int tries = 0; tries < 200 && (tries == 0 || measured["slots"].empty()); ++tries) {
    const Outcome outcome =
        explain("all_reduce --ranks 2 --transport shm --sizes 8,4K,8K,16K,32K,64K --json");
    ASSERT_EQ(outcome.status, 0) << outcome.text();
    objects = objects_of(outcome);
    ASSERT_EQ(objects.size(), 6U + 2U);  // then the machine, and what was measured
    measured = objects.back();
    objects.resize(6);
  }
  ASSERT_FALSE(measured["slots"].empty());
  const std::size_t most_bytes = measured["slots"][0]["most_bytes"];
  for (const nlohmann::json& object : objects)
    EXPECT_EQ(object["algorithm"], object["bytes"] <= most_bytes ? "slots" : "direct") << object;
}

TEST(Explain, json_has_every_candidate_with_its_cost) {
  const std::vector<nlohmann::json> objects =
      objects_of(explain("all_gather --transport tcp --sizes 64K --type int64 --json"));
  ASSERT_EQ(objects.size(), 1U + 2U);
  EXPECT_EQ(objects[0]["bytes"], 65536);
  EXPECT_EQ(objects[0]["type"], "int64");
  std::size_t chosen = 0;
  for (const nlohmann::json& candidate : objects[0]["candidates"]) {
    if (candidate["note"] == "chosen") {
      ++chosen;
      EXPECT_EQ(candidate["algorithm"], objects[0]["algorithm"]);
      EXPECT_EQ(candidate["estimate_us"], objects[0]["estimate_us"]);
    }
    if (candidate["is_possible"]) {
      EXPECT_GT(candidate["rounds"], 0) << candidate;
      EXPECT_GE(candidate["estimate_us"], objects[0]["estimate_us"]) << candidate;
    }
  }
  EXPECT_EQ(chosen, 1U);
}

TEST(Explain, an_algorithm_that_is_forced_names_by_whom) {
  const Outcome by_call = explain("all_reduce --transport tcp --sizes 8 --algorithm ring");
  ASSERT_EQ(rows_of(by_call).size(), 1U) << by_call.text();
  EXPECT_EQ(rows_of(by_call)[0][1], "ring");
  EXPECT_THAT(by_call.text(), HasSubstr("the call forces it"));
  ::setenv("COHORT_ALGO", "mesh", 1);
  const Outcome by_environment = explain("all_reduce --transport tcp --sizes 8");
  ::unsetenv("COHORT_ALGO");
  ASSERT_EQ(rows_of(by_environment).size(), 1U) << by_environment.text();
  EXPECT_EQ(rows_of(by_environment)[0][1], "mesh");
  EXPECT_THAT(by_environment.text(), HasSubstr("COHORT_ALGO"));
}

TEST(Explain, in_a_job_its_ranks_are_joined_and_rank_0_prints) {
  const std::string itself = std::string(COHORT_TEST_BIN_DIR) + "/cohort";
  const Outcome outcome =
      run_cohort("run -n 3 --timeout 60 -- '" + itself + "' explain barrier --transport tcp", true);
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_THAT(outcome.text(), HasSubstr("[0] # cohort barrier: 3 ranks over tcp"));
  for (const std::string& line : outcome.lines) EXPECT_EQ(line.substr(0, 4), "[0] ");
}

TEST(Explain, another_number_of_ranks_than_the_job_has_is_refused) {
  const std::string itself = std::string(COHORT_TEST_BIN_DIR) + "/cohort";
  const Outcome outcome =
      run_cohort("run -n 2 --timeout 60 -- '" + itself + "' explain barrier --ranks 3", true);
  EXPECT_EQ(outcome.status, 1) << outcome.text();
  EXPECT_THAT(outcome.text(), AllOf(HasSubstr("--ranks 3"), HasSubstr("job of 2")));
}

TEST(Explain, an_algorithm_that_cannot_run_names_those_that_can) {
  const Outcome outcome = explain("all_reduce --transport tcp --sizes 8 --algorithm direct", true);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text(), AllOf(HasSubstr("'direct'"), HasSubstr("ring")));
}

struct Mistake {
  const char* name;
  const char* arguments;
  std::vector<std::string> told;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class ExplainMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(ExplainMistake, is_told_with_what_would_be_right) {
  const Outcome outcome = explain(GetParam().arguments, true);
  EXPECT_EQ(outcome.status, 2);
  for (const std::string& word : GetParam().told) EXPECT_THAT(outcome.text(), HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, ExplainMistake,
    ::testing::Values(Mistake{"no_collective", "", {"collective"}},
                      Mistake{"collective", "reduce_all", {"reduce_all", "all_reduce", "barrier"}},
                      Mistake{"type", "all_reduce --type half", {"half", "float32", "int64"}},
                      Mistake{"algorithm", "all_reduce --algorithm tree9", {"tree9", "mesh", "ring"}},
                      Mistake{"transport", "all_reduce --transport ib", {"ib", "shm", "tcp"}},
                      Mistake{"size", "all_reduce --min 8Q", {"8Q", "64K"}},
                      Mistake{"sizes", "all_reduce --sizes 8,0", {"0", "1"}},
                      Mistake{"order", "all_reduce --min 64 --max 8", {"--min", "--max"}},
                      Mistake{"ranks", "all_reduce --ranks 0", {"1", "256"}}),
    [](const auto& test) { return std::string(test.param.name); });

/// The lines of the page that start with this.
std::vector<std::string> lines_of_page(const std::string& start) {
  std::ifstream page(std::string(COHORT_TEST_SOURCE_DIR) + "/docs/measured/explain.md");
  std::vector<std::string> found;
  for (std::string line; std::getline(page, line);)
    if (line.compare(0, start.size(), start) == 0) found.push_back(line);
  return found;
}

/// Numbers change from machine to machine, and what there was time to measure; other words and their order do
/// not.
std::string without_numbers(const std::string& line) {
  std::string words;
  for (const char c : line.substr(0, line.find(", by default: not measured")))
    if (std::string("0123456789.- ").find(c) == std::string::npos) words += c;
  return words;
}

/// Over links the choice depends on how fast they are; whether the kernel may copy, on its settings.
bool is_the_same_everywhere(const std::string& line, const std::string& example) {
  for (const char* of_this_host : {"# by default, not measured:", "blocks to ", "blocks of ", "one to all ",
                                   "shares combined", "huge pages", " verbs "})
    if (line.find(of_this_host) != std::string::npos) return false;
  if (example.find("--transport shm") != std::string::npos) return true;
  const bool tells_choice =
      line.find("chosen") != std::string::npos || line.find("possible") != std::string::npos;
  return line.front() == '#' && !tells_choice;
}

TEST(ExplainPage, shows_the_output_of_its_examples) {
  const std::string prompt = "    $ cohort ";
  const std::vector<std::string> examples = lines_of_page(prompt);
  ASSERT_EQ(examples.size(), 2U);
  std::vector<std::string> page;
  std::vector<std::string> printed;
  for (const std::string& line : lines_of_page("    ")) printed.push_back(line.substr(4));
  for (const std::string& line : unwrapped_lines(printed)) page.push_back(without_numbers(line));
  for (const std::string& example : examples) {
    const Outcome outcome = run_cohort(example.substr(prompt.size()));
    ASSERT_EQ(outcome.status, 0) << example;
    for (const std::string& line : unwrapped_lines(outcome.lines)) {
      if (line.empty() || !is_the_same_everywhere(line, example)) continue;
      EXPECT_THAT(page, ::testing::Contains(without_numbers(line))) << example << "\n" << line;
    }
  }
}

}  // namespace
}  // namespace cohort::explain_command_test
