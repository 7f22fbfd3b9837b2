// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/suite.h>

#include <cstdio>
#include <string>

namespace cohort::check {

/// "2-8,16,64": numbers and ranges, in any order. Throws InvalidArgument, naming `what`.
[[nodiscard]] std::vector<std::size_t> parse_numbers(const std::string& what, const std::string& text,
                                                     std::size_t least, std::size_t most);

/// Checks the cases on so many threads; prints what fails, a table of what is proved of each algorithm, and
/// "N passed, 0 failed" as the last line. True if all were run and none failed. `out` and `progress` may be
/// the same; progress is shown only on a terminal.
[[nodiscard]] bool run_cases(const CaseSource& source, unsigned threads, std::FILE* out, std::FILE* progress);

}  // namespace cohort::check
