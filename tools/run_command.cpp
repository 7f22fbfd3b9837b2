// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/run_command.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/launch/agent.h>
#include <cohort/tools/launch/forwarded.h>
#include <cohort/tools/launch/host_list.h>
#include <cohort/tools/launch/hosts_launcher.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/launch/own_program.h>
#include <cohort/tools/transport_names.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

namespace cohort {
namespace {

constexpr unsigned kMostStartedRanks = 1024;

constexpr const char* kRunFooter = R"(TIME is in seconds or has a unit: 60, 1.5, 250ms, 10min.

Examples:
  cohort run -n 4 -- ./train --epochs 10
  cohort run -n 2 --transport tcp --timeout 5min -- ./train --resume

  cohort run --hosts node1,node2:4,node[03-06]:8 -- ./train
  cohort run --hostfile hosts -n 12 -x OMP_NUM_THREADS=2 -- ./train

With --hosts or --hostfile ranks are numbered host after host, and an agent is started on each over ssh, which
has to work without a password. cohort, the program and the directory have to be there under the same paths.
A host file has a host in a line, as NAME, NAME:COUNT or NAME slots=COUNT. Ranks get the variables COHORT_...
of this shell, and those that -x names. They meet at an address of the first host on the way to the others,
or at COHORT_ADDR if it is HOST:PORT.

Each rank finds COHORT_RANK, COHORT_SIZE, COHORT_LOCAL_RANK, COHORT_LOCAL_SIZE, COHORT_ADDR and
COHORT_SECRET_FD in its environment, and an empty standard input. What it started ends with the job,
unless it has made a session of its own (setsid).

When a rank fails, the others have a second to say so themselves, then get SIGTERM, and two seconds later
SIGKILL. With --keep-going they are left alone, for programs that go on without it; each failure is told.

Status: 0 when all ranks succeed, and with --keep-going when any does; else that of the first rank that
failed (128 + signal if one ended it); 124 after the timeout; 127 when the program cannot be started; 128 +
signal after SIGINT, SIGTERM or SIGHUP; 141 when nobody reads the output any more; 1 when it could not be
written; 255 when ssh does not reach a host; 2 for wrong options.)";

struct RunArguments {
  LaunchOptions launch;
  std::string transport;
  std::string hosts;
  std::string hostfile;
  std::string remote_shell;
  std::string agent_program;
  std::string directory;
  std::vector<std::string> variables;
  bool is_without_prefix = false;
  bool is_agent = false;
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

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

HostsOptions hosts_of(const RunArguments& arguments) {
  HostsOptions hosts;
  std::vector<HostSlots> named =
      arguments.hosts.empty() ? read_hostfile(arguments.hostfile) : parse_hosts(arguments.hosts);
  hosts.hosts = share_out(std::move(named), arguments.launch.ranks);
  hosts.remote_shell = words_of(arguments.remote_shell);
  if (hosts.remote_shell.empty()) hosts.remote_shell = default_remote_shell();
  hosts.agent_program = arguments.agent_program.empty() ? own_program("cohort-run") : arguments.agent_program;
  hosts.directory =
      arguments.directory.empty() ? std::filesystem::current_path().string() : arguments.directory;
  const std::string address = environment::text("COHORT_ADDR").value_or("");
  if (!address.starts_with("unix:")) hosts.address = address;
  return hosts;
}

int run_on_hosts(Engine& engine, const RunArguments& arguments) {
  LaunchOptions options = arguments.launch;
  HostsOptions hosts = hosts_of(arguments);
  std::vector<std::pair<std::string, std::string>> environment = forwarded_variables(arguments.variables);
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  options.environment = std::move(environment);
  return engine.run(launch_on_hosts(engine, std::move(hosts), std::move(options)));
}

int run_job(RunArguments& arguments) {
  const bool is_on_hosts = !arguments.hosts.empty() || !arguments.hostfile.empty();
  if (arguments.is_agent) {
    Engine engine({.spin = Duration::zero()});
    return engine.run(run_agent(engine));
  }
  if (!is_on_hosts && arguments.launch.ranks == 0)
    throw CLI::ValidationError("-n COUNT is missing, or --hosts, or --hostfile");
  if (arguments.launch.command.empty()) throw CLI::ValidationError("the PROGRAM to run is missing");
  LaunchOptions& options = arguments.launch;
  options.prefix_output = !arguments.is_without_prefix;
  if (!arguments.transport.empty()) options.environment.emplace_back("COHORT_TRANSPORT", arguments.transport);
  Engine engine({.spin = Duration::zero()});  // the cores belong to the ranks
  if (is_on_hosts) return run_on_hosts(engine, arguments);
  if (!arguments.directory.empty()) std::filesystem::current_path(arguments.directory);
  for (auto& variable : forwarded_variables(arguments.variables, false))
    options.environment.push_back(variable);
  return engine.run(launch(engine, options));
}

void add_host_options(CLI::App& run, RunArguments& arguments) {
  CLI::Option* hosts = run.add_option("--hosts", arguments.hosts, "Start them on these hosts, over ssh");
  hosts->option_text("HOST[:COUNT],...");
  CLI::Option* file = run.add_option("--hostfile", arguments.hostfile, "On the hosts that this file names");
  file->option_text("FILE")->excludes(hosts);
  run.add_option("--rsh", arguments.remote_shell, "What starts a command on a host, in the place of ssh")
      ->option_text("COMMAND");
  run.add_option("--agent-program", arguments.agent_program,
                 "Where cohort-run is on the other hosts, if not where it is here")
      ->option_text("PATH");
  run.add_option("--directory", arguments.directory, "In which the ranks run, if not in this one")
      ->option_text("PATH");
  run.add_option("-x,--env", arguments.variables, "A variable that ranks get, on other hosts too")
      ->option_text("NAME[=VALUE]")
      ->allow_extra_args(false);
  run.add_flag("--agent", arguments.is_agent)->group("");
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  CLI::App* run =
      app.add_subcommand("run", "Start a program as the ranks of one job, here or on several hosts");
  const auto arguments = std::make_shared<RunArguments>();
  arguments->launch.ranks = 0;
  run->formatter(std::make_shared<RunFormatter>());
  run->add_option("-n,--ranks", arguments->launch.ranks,
                  "How many ranks to start; with hosts: all that they may have")
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
  add_host_options(*run, *arguments);
  run->add_option("program", arguments->launch.command, "The program and its arguments")->group("");
  run->positionals_at_end();
  run->footer(kRunFooter);
  run->callback([arguments, &status] { status = run_job(*arguments); });
}

}  // namespace cohort
