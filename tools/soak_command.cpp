// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak_command.h>

#include <cohort/engine/system/environment.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/sim/topology_file.h>
#include <cohort/tools/soak/soak.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

namespace cohort {
namespace {

constexpr std::uint64_t kMostJobs = 1'000'000'000;

constexpr const char* kFooter = R"(Examples:
  cohort soak --jobs 10000
  cohort soak --seed 4711 --jobs 1 --trace
  cohort soak --topology samples/topologies/faults.json --jobs 100

Each seed is a small job: ranks on hosts, communicators, collectives, and faults. Real engines and
communicators run it in virtual time over simulated sockets, and the same seed goes the same way every time.
Results, deadlines, the culprits that ranks name and the buffers after each call are checked. docs/soak.md
tells more.

Status: 0 when all jobs did well; 1 otherwise; 2 for wrong options.)";

std::uint64_t parse_seed(const std::string& text) {
  return environment::parse_number("NUMBER", text, 0, std::numeric_limits<std::uint64_t>::max());
}

int run_soak(soak::SoakOptions options, const std::string& topology) {
  if (!topology.empty()) options.topology = sim::read_topology(topology);
  const bool is_good = soak::run_jobs(options, stdout, stderr);
  std::fflush(stdout);
  if (!is_good) std::_Exit(1);  // threads of a job that hangs are still there
  return 0;
}

}  // namespace

void add_soak_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("soak", "Run seeded jobs with faults in simulated worlds");
  const auto options = std::make_shared<soak::SoakOptions>();
  command->add_option("--jobs", options->jobs, "How many; 1000 unless given")
      ->check(CLI::Range(std::uint64_t{1}, kMostJobs))
      ->type_name("COUNT");
  command->add_option("--seed", options->first_seed, "Of the first job; 1 unless given")
      ->check(command_line::accepts("NUMBER", parse_seed));
  const auto topology = std::make_shared<std::string>();
  command->add_option("--topology", *topology, "Hosts, links and faults of all jobs, instead of drawn ones")
      ->type_name("FILE");
  command->add_flag("--show", options->prints_jobs, "Print all that was drawn for each job");
  command->add_flag("--trace", options->prints_trace, "Print every event to standard error");
  command->footer(kFooter);
  command->callback([options, topology, &status] { status = run_soak(*options, *topology); });
}

}  // namespace cohort
