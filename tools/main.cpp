// SPDX-License-Identifier: Apache-2.0
// The command `cohort`: one subcommand per header beside this file.
#include <cohort/engine/error.h>
#include <cohort/engine/system/process.h>
#include <cohort/tools/bench_command.h>
#include <cohort/tools/check_command.h>
#include <cohort/tools/explain_command.h>
#include <cohort/tools/run_command.h>
#include <cohort/tools/sim_command.h>
#include <cohort/tools/soak_command.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int kErrorStatus = 1;
constexpr int kUsageStatus = 2;

std::string explain_usage(const CLI::App* app, const CLI::Error& error) {
  std::string command = app->get_name();
  for (const CLI::App* chosen : app->get_subcommands()) command += " " + chosen->get_name();
  return fmt::format("cohort: {}\nSee: {} --help\n", error.what(), command);
}

}  // namespace

int main(int argc, char** argv) {
  cohort::open_standard_descriptors();
  CLI::App app("cohort: collective communication between processes", "cohort");
  app.set_version_flag("--version", "cohort " COHORT_VERSION);
  app.failure_message(explain_usage);
  int status = 0;
  cohort::add_run_command(app, status);
  cohort::add_bench_command(app, std::vector<std::string>(argv, argv + argc), status);
  cohort::add_check_command(app, status);
  cohort::add_sim_command(app, status);
  cohort::add_explain_command(app, status);
  cohort::add_soak_command(app, status);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::ValidationError("what to do is missing, such as run");
    return status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageStatus;
  } catch (const cohort::Error& error) {
    fmt::print(stderr, "cohort: {}\n", error.what());
    return kErrorStatus;
  }
}
