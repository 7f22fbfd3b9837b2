// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/run_command.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/join/join_environment.h>
#include <cohort/net/join/table_place.h>
#include <cohort/tools/host_arguments.h>
#include <cohort/tools/launch/agent.h>
#include <cohort/tools/launch/forwarded.h>
#include <cohort/tools/launch/hosts_launcher.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/launch/mpi_library.h>
#include <cohort/tools/transport_names.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

namespace cohort {
namespace {

constexpr unsigned kMostStartedRanks = 1024;
constexpr std::uint64_t kLastPort = 65535;
constexpr unsigned kPortAttempts = 16;  // before it may be that of COHORT_ADDR, as of a range of one port
/// In which those who start a command on each node tell it which one it is on.
constexpr std::array kNodeVariables = {"JOB_COMPLETION_INDEX", "SLURM_NODEID", "PET_NODE_RANK"};

constexpr const char* kRunFooter = R"(TIME is in seconds or has a unit: 60, 1.5, 250ms, 10min.

Examples:
  cohort run -n 4 -- ./train --epochs 10
  cohort run -n 2 --transport tcp --timeout 5min -- ./train --resume
  cohort run --mpi -n 4 -- python3 with_mpi4py.py

  cohort run --hosts node1,node2:4,node[03-06]:8 -- ./train
  cohort run --hostfile hosts -n 12 -x OMP_NUM_THREADS=2 -- ./train

With --hosts or --hostfile ranks are numbered host after host, and an agent is started on each over ssh, which
has to work without a password. cohort, the program and the directory have to be there under the same paths.
A host file has a host in a line, as NAME, NAME:COUNT or NAME slots=COUNT. Ranks get the variables COHORT_...
of this shell, and those that -x names. They meet at an address of the first host on the way to the others,
or at COHORT_ADDR if it is HOST:PORT.

With --nodes somebody else starts this command on each node, as a Job of Kubernetes does: ranks of the same
COHORT_ADDR, or MASTER_ADDR, and COHORT_SECRET_FILE.
  cohort run -n 4 --nodes 2 --node-rank $JOB_COMPLETION_INDEX -- ./train
Without --node-rank the first of JOB_COMPLETION_INDEX, SLURM_NODEID and PET_NODE_RANK that is set says it.

Each rank finds COHORT_RANK, COHORT_SIZE, COHORT_LOCAL_RANK, COHORT_LOCAL_SIZE, COHORT_ADDR and
COHORT_SECRET_FD in its environment, for programs written for torchrun RANK, WORLD_SIZE, LOCAL_RANK,
LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, too (-x MASTER_PORT=29500 chooses another one), and an empty
standard input. OMP_NUM_THREADS, where it is unset, is the cores of the host over its ranks. What a rank
started ends with the job, unless it has made a session of its own (setsid).

When a rank fails, the others have a second to say so themselves, then get SIGTERM, and two seconds later
SIGKILL. With --keep-going they are left alone, for programs that go on without it; each failure is told.

Status: 0 when all ranks succeed, and with --keep-going when any does; else that of the first rank that
failed (128 + signal if one ended it); 124 after the timeout; 127 when the program cannot be started; 128 +
signal after SIGINT, SIGTERM or SIGHUP; 141 when nobody reads the output any more; 1 when it could not be
written; 255 when ssh does not reach a host; 2 for wrong options.)";

struct RunArguments {
  LaunchOptions launch;
  std::string transport;
  HostArguments hosts;
  std::vector<std::string> variables;
  Rank nodes = 1;
  std::string node_rank;
  bool is_node_given = false;
  bool is_without_prefix = false;
  bool is_of_mpi = false;
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

int run_on_hosts(Engine& engine, const RunArguments& arguments) {
  LaunchOptions options = arguments.launch;
  HostsOptions hosts = hosts_from(arguments.hosts, arguments.launch.ranks);
  std::vector<std::pair<std::string, std::string>> environment = forwarded_variables(arguments.variables);
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  options.environment = std::move(environment);
  return engine.run(launch_on_hosts(engine, std::move(hosts), std::move(options)));
}

/// As all nodes know it without asking each other: MASTER_ADDR and MASTER_PORT as they have them, else the
/// host of rank 0's address, and a port that its job picks.
MasterPlace master_among_nodes(const std::string& address, const std::string& job) {
  const std::string host = environment::text("MASTER_ADDR").value_or(host_of(address));
  if (const auto port = environment::number("MASTER_PORT", 1, kLastPort))
    return {host, static_cast<std::uint16_t>(*port)};
  std::string place = address;
  for (unsigned attempt = 0; attempt < kPortAttempts && place == address; ++attempt)
    place = meeting_address(host_of(address), fmt::format("master|{}|{}|{}", address, job, attempt));
  const std::string port = place.substr(place.rfind(':') + 1);
  return {host, static_cast<std::uint16_t>(environment::parse_number("the port", port, 1, kLastPort))};
}

/// Nobody is node 0 for want of a number: two of them would be.
Rank node_of(const RunArguments& arguments) {
  const Rank last = arguments.nodes - 1;
  const auto number = [last](const char* name, const std::string& text) {
    try {
      return static_cast<Rank>(environment::parse_number(name, text, 0, last));
    } catch (const Error&) {
      throw CLI::ValidationError(fmt::format(
          "{} takes a number from 0 to {}, and has '{}': is a variable empty?", name, last, text));
    }
  };
  if (arguments.is_node_given) return number("--node-rank", arguments.node_rank);
  for (const char* const variable : kNodeVariables)
    if (const auto text = environment::text(variable)) return number(variable, *text);
  throw CLI::ValidationError(
      fmt::format("--nodes {}: --node-rank is missing: give each node a number of its own, "
                  "from 0 to {}; or have one of {} set",
                  arguments.nodes, last, fmt::join(kNodeVariables, ", ")));
}

/// Where somebody else starts this command once on each host, as Kubernetes does in pods.
HostShare share_of(const RunArguments& arguments) {
  const Rank node = node_of(arguments);
  HostShare share;
  share.first_rank = node * arguments.launch.ranks;
  share.size = arguments.nodes * arguments.launch.ranks;
  share.name = fmt::format("node {}", node);
  JoinOptions join = join_options_besides_place();
  share.secret = std::move(join.secret);
  share.address = join.address;
  if (share.address.empty()) {
    const auto master = environment::text("MASTER_ADDR");
    if (!master)
      throw CLI::ValidationError(
          "--nodes: COHORT_ADDR is not set, nor MASTER_ADDR: give HOST:PORT of the first node");
    share.address = meeting_address(*master, environment::text("MASTER_PORT").value_or(""));
  }
  share.master = master_among_nodes(share.address, join.job);
  if (!share.secret)
    throw CLI::ValidationError(
        "--nodes: the job's secret is missing: give all nodes the same COHORT_SECRET_FILE");
  return share;
}

void enter(const std::string& directory) {
  std::error_code failure;
  std::filesystem::current_path(directory, failure);
  if (failure)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("the directory '{}' cannot be entered ({}): make it, or name another one with "
                            "--directory",
                            directory, failure.message()));
}

int run_job(RunArguments& arguments) {
  const bool is_on_hosts = arguments.hosts.are_given();
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
  if (arguments.is_of_mpi)
    for (auto& variable : mpi_variables()) options.environment.push_back(std::move(variable));
  Engine engine({.spin = Duration::zero()});  // the cores belong to the ranks
  if (is_on_hosts) return run_on_hosts(engine, arguments);
  if (arguments.nodes > 1) options.share = share_of(arguments);
  if (!arguments.hosts.directory.empty()) enter(arguments.hosts.directory);
  for (auto& variable : forwarded_variables(arguments.variables, false))
    options.environment.push_back(variable);
  return engine.run(launch(engine, options));
}

void add_host_options(CLI::App& run, RunArguments& arguments) {
  add_host_arguments(run, arguments.hosts, "");
  run.add_option("-x,--env", arguments.variables, "A variable that ranks get, on other hosts too")
      ->option_text("NAME[=VALUE]")
      ->allow_extra_args(false);
  run.add_option("--nodes", arguments.nodes,
                 "On so many nodes this command is started, each time for COUNT ranks")
      ->check(CLI::Range(Rank{1}, Rank{65536}))
      ->excludes("--hosts")
      ->excludes("--hostfile");
  run.add_option("--node-rank", arguments.node_rank, "Which of them this one is, from 0")
      ->option_text("NUMBER")
      ->each([&arguments](const std::string&) { arguments.is_node_given = true; });
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
  run->add_flag("--mpi", arguments->is_of_mpi,
                "For a program of MPI, such as one of mpi4py: it gets cohort's libmpi.so.12");
  add_host_options(*run, *arguments);
  run->add_option("program", arguments->launch.command, "The program and its arguments")->group("");
  run->positionals_at_end();
  run->footer(kRunFooter);
  run->callback([arguments, &status] { status = run_job(*arguments); });
}

}  // namespace cohort
