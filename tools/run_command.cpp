// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/run_command.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/transport_names.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace cohort {
namespace {

constexpr unsigned kMostStartedRanks = 1024;

constexpr const char* kRunFooter = R"(TIME is in seconds or has a unit: 60, 1.5, 250ms, 10min.

Examples:
  cohort run -n 4 -- ./train --epochs 10
  cohort run -n 2 --transport tcp --timeout 5min -- ./train --resume

Each rank finds COHORT_RANK, COHORT_SIZE, COHORT_LOCAL_RANK, COHORT_LOCAL_SIZE, COHORT_ADDR and
COHORT_SECRET_FD in its environment, and an empty standard input. What it started ends with the job,
unless it has made a session of its own (setsid).

When a rank fails, the others have a second to say so themselves, then get SIGTERM, and two seconds later
SIGKILL. With --keep-going they are left alone, for programs that go on without it; each failure is told.

Status: 0 when all ranks succeed, and with --keep-going when any does; else that of the first rank that
failed (128 + signal if one ended it); 124 after the timeout; 127 when the program cannot be started; 128 +
signal after SIGINT, SIGTERM or SIGHUP; 141 when nobody reads the output any more; 1 when it could not be
written; 2 for wrong options.)";

struct RunArguments {
  LaunchOptions launch;
  std::string transport;
  bool is_without_prefix = false;
};

/// CLI11 cannot know that the program comes last.
class RunFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return "Usage: " + name + " -n COUNT [OPTIONS] [--] PROGRAM [ARGS]...\n";
  }
};

/// As a validator of CLI11: empty, or what is wrong.
std::string take_timeout(RunArguments& arguments, const std::string& text) {
  try {
    const Duration timeout = environment::parse_duration("TIME", text);
    if (timeout > Duration::zero()) arguments.launch.timeout = timeout;
    return {};
  } catch (const Error& error) {
    return std::string(error.message());
  }
}

int run_job(RunArguments& arguments) {
  if (arguments.launch.command.empty()) throw CLI::ValidationError("the PROGRAM to run is missing");
  LaunchOptions& options = arguments.launch;
  options.prefix_output = !arguments.is_without_prefix;
  if (!arguments.transport.empty()) options.environment.emplace_back("COHORT_TRANSPORT", arguments.transport);
  Engine engine({.spin = Duration::zero()});  // the cores belong to the ranks
  return engine.run(launch(engine, options));
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  CLI::App* run = app.add_subcommand("run", "Start a program as the ranks of one job on this host");
  const auto arguments = std::make_shared<RunArguments>();
  run->formatter(std::make_shared<RunFormatter>());
  run->add_option("-n,--ranks", arguments->launch.ranks, "How many ranks to start")
      ->required()
      ->check(CLI::Range(1U, kMostStartedRanks))
      ->option_text("COUNT");
  run->add_option_function<std::string>(
         "--timeout", [](const std::string&) {}, "End the job with status 124 after it; 0: never")
      ->check([arguments](const std::string& text) { return take_timeout(*arguments, text); })
      ->option_text("TIME");
  run->add_option("--transport", arguments->transport, "Force a transport (sets COHORT_TRANSPORT)")
      ->check(CLI::IsMember(command_line::transport_names()))
      ->option_text(fmt::format("{}", fmt::join(command_line::transport_names(), "|")));
  run->add_flag("--no-prefix", arguments->is_without_prefix,
                "Do not write \"[RANK] \" before each line of output");
  run->add_flag("--keep-going", arguments->launch.keeps_going,
                "When a rank fails, let the others go on; succeed if any of them does");
  run->add_option("program", arguments->launch.command, "The program and its arguments")->group("");
  run->positionals_at_end();
  run->footer(kRunFooter);
  run->callback([arguments, &status] { status = run_job(*arguments); });
}

}  // namespace cohort
