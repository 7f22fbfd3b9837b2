// SPDX-License-Identifier: Apache-2.0
// The checker earns trust: every planted fault is caught, for what it is, at its place; and the table in
// docs/ says so with the messages that are printed today.
#include <cohort/tests/support/planted_faults.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace cohort::test::mutation_test {
namespace {

using check::Finding;
using check::Report;
using ::testing::HasSubstr;

constexpr std::size_t kFaultsAtLeast = 40;

void expect_named(const Report& report, check::FindingKind kind, const std::string& names,
                  const std::string& what) {
  ASSERT_FALSE(report.passed()) << what << ": not caught";
  const Finding& first = report.findings.front();
  EXPECT_EQ(to_string(first.kind), to_string(kind)) << what << "\n" << report.text();
  EXPECT_THAT(first.text, HasSubstr(names)) << what << "\n" << report.text();
}

TEST(PlantedFaults, are_many) {
  EXPECT_GE(planted_faults().size() + wrong_schedules().size(), kFaultsAtLeast);
}

TEST(PlantedFaults, are_caught_and_named_at_their_place) {
  for (const PlantedFault& one : planted_faults()) {
    const std::string what = one.schedule + ", " + one.fault;
    EXPECT_EQ(one.run(false, 0).text(), "") << what << ": not right to begin with";
    expect_named(one.run(true, 0), one.kind, one.names, what);
  }
}

TEST(WrongSchedules, are_caught_and_named_at_their_place) {
  for (const WrongSchedule& one : wrong_schedules())
    expect_named(one.run({}), one.kind, one.names, one.mistake);
}

std::string row(const std::string& fault, const std::string& schedule, const Report& report) {
  if (report.passed()) return fmt::format("| {} | {} | - | not caught |\n", fault, schedule);
  const Finding& first = report.findings.front();
  return fmt::format("| {} | {} | {} | {} |\n", fault, schedule, to_string(first.kind), first.text);
}

std::string table() {
  std::string text = "| fault | planted into | found as | first message |\n| --- | --- | --- | --- |\n";
  for (const PlantedFault& one : planted_faults()) text += row(one.fault, one.schedule, one.run(true, 0));
  for (const WrongSchedule& one : wrong_schedules())
    text += row(one.mistake, "a schedule of its own", one.run({}));
  return text;
}

TEST(PlantedFaults, stand_in_the_docs_with_todays_messages) {
  const std::string path = std::string(COHORT_TEST_SOURCE_DIR) + "/docs/generated/planted-faults.md";
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string expected = table();
  const std::string written = std::string(COHORT_TEST_BIN_DIR) + "/planted-faults-table.md";
  std::ofstream(written) << expected;
  EXPECT_NE(content.str().find(expected), std::string::npos)
      << path << " differs from what the checker says today, which is in " << written;
}

}  // namespace
}  // namespace cohort::test::mutation_test
