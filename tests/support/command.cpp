// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/command.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>

namespace cohort::test {

std::string CommandOutcome::text() const {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

CommandOutcome run_cohort(const std::string& arguments, bool and_errors) {
  const std::string program = std::string(COHORT_TEST_BIN_DIR) + "/cohort";
  EXPECT_TRUE(std::filesystem::exists(program)) << "build cohort_command first";
  // Shells start without SIGINT what is to run in the background.
  const std::string command =
      "env --default-signal=INT '" + program + "' " + arguments + (and_errors ? " 2>&1" : "");
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) output += some.data();
  const int status = ::pclose(pipe);
  CommandOutcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) outcome.lines.push_back(line);
  return outcome;
}

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, separator);)
    if (!field.empty()) fields.push_back(field);
  return fields;
}

}  // namespace cohort::test
