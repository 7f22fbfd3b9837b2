// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/application.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/process.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

namespace cohort {
namespace {

constexpr int kErrorStatus = 1;
constexpr int kUsageStatus = 2;

std::string explain_usage(const CLI::App* app, const CLI::Error& error) {
  std::string command = app->get_name();
  for (const CLI::App* chosen : app->get_subcommands()) command += " " + chosen->get_name();
  std::string commands;
  if (app->get_subcommands().empty())
    for (const CLI::App* each : app->get_subcommands(nullptr))
      commands += fmt::format("{}{}", commands.empty() ? "Commands: " : ", ", each->get_name());
  return fmt::format("cohort: {}\n{}{}See: {} --help\n", error.what(), commands, commands.empty() ? "" : "\n",
                     command);
}

/// What was printed on the way may have gone nowhere.
void check_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(ErrorKind::ResourceLimit,
                "standard output could not be written, so results are lost: look whether its disk is full");
}

/// fmt throws of its own where nobody takes what is printed.
std::string text_of(const std::exception& error) {
  try {
    check_output();
    return error.what();
  } catch (const Error& lost) {
    return lost.what();
  }
}

void parse_and_run(CLI::App& app, int argc, char** argv, int& status) {
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::ValidationError("what to do is missing, such as run");
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : kUsageStatus;
  }
}

}  // namespace

int run_application(const std::vector<AddCommand>& commands, int argc, char** argv) {
  open_standard_descriptors();
  CLI::App app("cohort: collective communication between processes", "cohort");
  app.set_version_flag("--version", "cohort " COHORT_VERSION);
  app.failure_message(explain_usage);
  int status = 0;
  for (const AddCommand& add : commands) add(app, status);
  try {
    parse_and_run(app, argc, argv, status);
    check_output();
    return status;
  } catch (const std::exception& error) {
    std::fputs(fmt::format("cohort: {}\n", text_of(error)).c_str(), stderr);
    return kErrorStatus;
  }
}

}  // namespace cohort
