// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak_command.h>

#include <cohort/engine/system/environment.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/interruption.h>
#include <cohort/tools/launch/own_program.h>
#include <cohort/tools/sim/topology_file.h>
#include <cohort/tools/soak/processes/process_soak.h>
#include <cohort/tools/soak/soak.h>
#include <cohort/tools/transport_names.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort {
namespace {

constexpr std::uint64_t kMostJobs = 1'000'000'000;

constexpr const char* kSoakFooter = R"(Examples:
  cohort soak --jobs 10000
  cohort soak --seed 4711 --jobs 1 --trace
  cohort soak --topology samples/topologies/faults.json --jobs 100
  cohort soak --processes --jobs 20 --transport tcp --longest-stop 10s

Each seed is a small job: ranks on hosts, communicators, collectives, and faults. Real engines and
communicators run it in virtual time over simulated sockets, and the same seed goes the same way every time.
Results, deadlines, the culprits that ranks name and the buffers after each call are checked.
docs/extend/soak.md tells more. With --processes ranks are processes of this host, which are stopped and
continued while they give up calls: what is drawn is the same every time, and what happens is not.

Simulated ranks log errors only, unless COHORT_DEBUG says otherwise. Ctrl-C stops it after the job that runs,
one of processes at once, and prints the sum.

Status: 0 when all jobs did well; 1 otherwise; 2 for wrong options; 130 after Ctrl-C.)";

std::uint64_t parse_seed(const std::string& text) {
  return environment::parse_number("NUMBER", text, 0, std::numeric_limits<std::uint64_t>::max());
}

int run_soak(soak::SoakOptions options, const std::string& topology) {
  if (!topology.empty()) options.topology = sim::read_topology(topology);
  ::setenv("COHORT_DEBUG", "error", 0);  // warnings of simulated ranks are no news
  const bool is_good = soak::run_jobs(options, stdout, stderr);
  std::fflush(stdout);
  if (!is_good) std::_Exit(1);  // threads of a job that hangs are still there
  return Interruption::is_wanted() ? kInterruptedStatus : 0;
}

constexpr const char* kProcessOptions = "With --processes";

struct ProcessArguments {
  bool is_asked = false;
  soak::ProcessSoakOptions options;
  std::optional<std::uint64_t> rank_of;  ///< the seed of the job that this process is a rank of
  bool touches_old_buffer = false;
  bool gives_wrong_data = false;
};

Duration parse_time(const std::string& text) { return environment::parse_duration("TIME", text); }

void add_time(CLI::App& command, const std::string& name, Duration& time, const std::string& purpose) {
  command
      .add_option_function<std::string>(
          name, [&time](const std::string& text) { time = parse_time(text); }, purpose)
      ->check(command_line::accepts("TIME", parse_time))
      ->group(kProcessOptions);
}

void add_process_options(CLI::App& command, ProcessArguments& arguments) {
  command
      .add_flag("--processes", arguments.is_asked, "Jobs of real processes, which are stopped and continued")
      ->group(kProcessOptions);
  soak::ProcessJobOptions& job = arguments.options.job;
  add_time(command, "--job-time", job.takes, "Of each job; 10s unless given");
  add_time(command, "--longest-stop", job.longest_stop, "Of a rank; 300ms unless given");
  std::vector<std::string> transports = command_line::transport_names();
  transports.emplace_back(soak::kTwoHosts);
  command
      .add_option("--transport", job.transports,
                  "One of these is drawn for each job; hosts: ranks of two hosts")
      ->check(CLI::IsMember(transports))
      ->group(kProcessOptions);
  // Not for users: what a rank is started with, and bugs that tests plant.
  command.add_option("--as-rank", arguments.rank_of)->group("");
  command.add_flag("--plant-touch", arguments.touches_old_buffer)->group("");
  command.add_flag("--plant-data", arguments.gives_wrong_data)->group("");
}

std::vector<std::string> rank_command(const ProcessArguments& arguments) {
  const auto text_of = [](Duration time) {
    return fmt::format("{}us", std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  };
  const soak::ProcessJobOptions& job = arguments.options.job;
  std::vector<std::string> command = {
      own_program("cohort"),    "soak", "--processes", "--job-time", text_of(job.takes), "--longest-stop",
      text_of(job.longest_stop)};
  for (const std::string& transport : job.transports)
    command.insert(command.end(), {"--transport", transport});
  if (arguments.touches_old_buffer) command.emplace_back("--plant-touch");
  if (arguments.gives_wrong_data) command.emplace_back("--plant-data");
  command.emplace_back("--as-rank");
  return command;
}

int run_process_soak(ProcessArguments& arguments, const CLI::App& command, const soak::SoakOptions& common) {
  soak::ProcessSoakOptions& options = arguments.options;
  if (arguments.rank_of) {
    const soak::PlantedInRank planted = arguments.touches_old_buffer ? soak::PlantedInRank::touches_old_buffer
                                        : arguments.gives_wrong_data ? soak::PlantedInRank::gives_wrong_data
                                                                     : soak::PlantedInRank::nothing;
    return soak::run_process_rank(soak::draw_process_job(*arguments.rank_of, options.job), planted);
  }
  for (const char* other : {"--topology", "--show", "--trace"})
    if (command.count(other) != 0)
      throw CLI::ValidationError(fmt::format("{} is of simulated worlds: not with --processes", other));
  options.first_seed = common.first_seed;
  if (command.count("--jobs") != 0) options.jobs = common.jobs;
  options.rank_command = rank_command(arguments);
  return soak::run_process_jobs(options, stdout);
}

}  // namespace

void add_soak_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("soak", "Run seeded jobs with faults in simulated worlds");
  const auto options = std::make_shared<soak::SoakOptions>();
  command->add_option("--jobs", options->jobs, "How many; 1000 unless given, 6 with --processes")
      ->check(CLI::Range(std::uint64_t{1}, kMostJobs))
      ->type_name("COUNT");
  command->add_option("--seed", options->first_seed, "Of the first job; 1 unless given")
      ->check(command_line::accepts("NUMBER", parse_seed));
  const auto topology = std::make_shared<std::string>();
  command->add_option("--topology", *topology, "Hosts, links and faults of all jobs, instead of drawn ones")
      ->type_name("FILE");
  command->add_flag("--show", options->prints_jobs, "Print all that was drawn for each job");
  command->add_flag("--trace", options->prints_trace, "Print every event to standard error");
  command->footer(kSoakFooter);
  const auto processes = std::make_shared<ProcessArguments>();
  add_process_options(*command, *processes);
  command->callback([options, topology, processes, command, &status] {
    for (const char* only : {"--job-time", "--longest-stop", "--transport"})
      if (!processes->is_asked && command->count(only) != 0)
        throw CLI::ValidationError(
            fmt::format("{} is of jobs of real processes: only with --processes", only));
    status = processes->is_asked ? run_process_soak(*processes, *command, *options)
                                 : run_soak(*options, *topology);
  });
}

}  // namespace cohort
