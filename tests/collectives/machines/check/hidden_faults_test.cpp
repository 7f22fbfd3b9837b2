// SPDX-License-Identifier: Apache-2.0
// Faults that show in some cases only are found in these, and the grid of `cohort check --all` has such
// cases.
#include <cohort/tests/support/hidden_faults.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace cohort::test::hidden_faults_test {
namespace {

using check::Case;
using check::Report;
using ::testing::HasSubstr;

constexpr std::size_t kFaultsAtLeast = 30;
constexpr std::uint64_t kSeeds = 5;

std::string name_of(const HiddenFault& one) {
  return check::describe({one.algorithm, one.shows}) + ": " + one.fault;
}

TEST(HiddenFaults, are_many) { EXPECT_GE(hidden_faults().size(), kFaultsAtLeast); }

TEST(HiddenFaults, do_not_show_everywhere) {
  for (const HiddenFault& one : hidden_faults()) EXPECT_EQ(one.run(one.harmless).text(), "") << name_of(one);
}

TEST(HiddenFaults, are_planted_into_what_passes) {
  for (const HiddenFault& one : hidden_faults())
    EXPECT_EQ(check::check(*one.algorithm, one.shows).text(), "") << name_of(one);
}

TEST(HiddenFaults, are_caught_and_named_at_their_place) {
  for (const HiddenFault& one : hidden_faults()) {
    const Report report = one.run(one.shows);
    EXPECT_FALSE(report.passed()) << name_of(one);
    if (report.passed()) continue;
    EXPECT_EQ(to_string(report.findings.front().kind), to_string(one.kind)) << name_of(one) << "\n"
                                                                            << report.text();
    EXPECT_THAT(report.findings.front().text, HasSubstr(one.names)) << name_of(one);
  }
}

TEST(HiddenFaults, are_caught_in_whatever_order_streams_run) {
  for (const HiddenFault& one : hidden_faults()) {
    check::CheckOptions options = one.shows;
    for (options.seed = 1; options.seed <= kSeeds; ++options.seed)
      EXPECT_FALSE(one.run(options).passed()) << name_of(one) << ", seed " << options.seed;
  }
}

std::string table() {
  std::string text = "| fault | shows in | found as | first message |\n| --- | --- | --- | --- |\n";
  for (const HiddenFault& one : hidden_faults()) {
    const check::Finding first = one.run(one.shows).findings.front();
    text += fmt::format("| {} | {} | {} | {} |\n", one.fault, check::describe({one.algorithm, one.shows}),
                        to_string(first.kind), first.text);
  }
  return text;
}

TEST(HiddenFaults, stand_in_the_docs_with_todays_messages) {
  const std::string path = std::string(COHORT_TEST_SOURCE_DIR) + "/docs/generated/planted-faults.md";
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string expected = table();
  const std::string written = std::string(COHORT_TEST_BIN_DIR) + "/hidden-faults-table.md";
  std::ofstream(written) << expected;
  EXPECT_NE(content.str().find(expected), std::string::npos)
      << path << " differs from what the checker says today, which is in " << written;
}

TEST(HiddenFaults, are_caught_by_the_grid) {
  check::CaseFilter filter;
  for (Rank ranks = 2; ranks <= 6; ++ranks) filter.ranks.push_back(ranks);
  for (const HiddenFault& one : hidden_faults()) {
    bool is_caught = false;
    for (const Case& of : check::cases_of(*one.algorithm, filter)) {
      is_caught = is_caught || !one.run(of.options).passed();
      if (is_caught) break;
    }
    EXPECT_TRUE(is_caught) << name_of(one);
  }
}

}  // namespace
}  // namespace cohort::test::hidden_faults_test
