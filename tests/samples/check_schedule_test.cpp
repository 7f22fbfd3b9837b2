// SPDX-License-Identifier: Apache-2.0
// The guide on checking a schedule shows what the sample holds, and the message that it gets today.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace cohort::check_schedule_test {
namespace {

using ::testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(std::string(COHORT_TEST_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> blocks_between(const std::string& text, const std::string& opening,
                                        const std::string& closing) {
  std::vector<std::string> blocks;
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
    at += opening.size();
    const std::size_t end = text.find(closing, at);
    blocks.push_back(text.substr(at, end - at));
    at = end;
  }
  return blocks;
}

TEST(CheckSchedule, catches_the_wrong_schedule_and_passes_the_right_one_as_the_guide_shows) {
  const std::string program = std::string(COHORT_TEST_BIN_DIR) + "/check_schedule";
  std::FILE* pipe = ::popen(("'" + program + "'").c_str(), "r");
  std::string output;
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) output += some.data();
  const int status = ::pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
  EXPECT_THAT(output, HasSubstr("cases passed\n"));
  EXPECT_THAT(read("docs/extend/check-a-schedule.md"), HasSubstr("```\n" + output + "```\n"));
}

TEST(CheckSchedule, code_in_the_guide_is_that_of_the_sample) {
  const std::string sample = read("samples/check_schedule.cpp");
  const std::string guide = read("docs/extend/check-a-schedule.md");
  const std::vector<std::string> blocks = blocks_between(guide, "```cpp\n", "```");
  EXPECT_EQ(blocks.size(), 2U);
  for (const std::string& block : blocks) EXPECT_THAT(sample, HasSubstr(block));
}

}  // namespace
}  // namespace cohort::check_schedule_test
