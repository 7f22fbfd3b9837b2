// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cohort::test {

/// What the program `cohort` left.
struct CommandOutcome {
  int status = -1;
  std::vector<std::string> lines;

  [[nodiscard]] std::string text() const;
};

/// Runs it as a user starts it, with a line for the shell. Standard output, and with `and_errors` standard
/// error too.
[[nodiscard]] CommandOutcome run_cohort(const std::string& arguments, bool and_errors = false);

/// The parts of a line between separators, without empty ones.
[[nodiscard]] std::vector<std::string> split(const std::string& line, char separator);

}  // namespace cohort::test
