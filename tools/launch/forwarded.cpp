// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/forwarded.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace cohort {
namespace {

constexpr std::string_view kPrefix = "COHORT_";
constexpr std::array<std::string_view, 11> kOfOneRankOrMachine = {
    "COHORT_ADDR",        "COHORT_HOST_ID", "COHORT_LOCAL_RANK",    "COHORT_LOCAL_SIZE",
    "COHORT_MACHINE_ID",  "COHORT_RANK",    "COHORT_SECRET",        "COHORT_SECRET_FD",
    "COHORT_SECRET_FILE", "COHORT_SIZE",    "COHORT_BENCH_BOARD_FD"};

}  // namespace

std::vector<std::pair<std::string, std::string>> forwarded_variables(std::span<const std::string> named,
                                                                     bool all_of_cohort) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; all_of_cohort && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with(kPrefix) &&
        std::ranges::find(kOfOneRankOrMachine, name) == kOfOneRankOrMachine.end())
      variables.emplace_back(name, text.substr(std::min(name.size() + 1, text.size())));
  }
  for (const std::string& each : named) {
    const std::size_t equals = each.find('=');
    const std::string name = each.substr(0, equals);
    const char* const value = std::getenv(name.c_str());
    if (name.empty() || (equals == std::string::npos && value == nullptr))
      throw Error(ErrorKind::InvalidArgument,
                  fmt::format("-x {}: the variable is not set; set it, or write NAME=VALUE", each));
    variables.emplace_back(name, equals == std::string::npos ? value : each.substr(equals + 1));
  }
  return variables;
}

}  // namespace cohort
